"""Figure 9: how many hash indexes; AMRI against them and a static layout, on drifting streams and on sensors (9.3, 9.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.lab import check
from thalweg.lab.amri.alternatives import SETTING, SOURCE, more_than, panels, trials
from thalweg.lab.amri.streams import sensors as sensor_streams
from thalweg.lab.amri.trial import PAPER, Contender
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements

BEST = "7 hash indexes"
STATIC = "static bits (trained)"
EQUAL = "static bits (equal)"
AMRI = "AMRI (paper)"
OURS = "AMRI (ours)"
EACH = "hash for each pattern"
LENIENT = PAPER | {"epsilon": 0.1, "theta": 0.15}
"""The paper's settings for sensors and for figure 10."""


def hashed(k: int) -> Contender:
    return Contender(f"{k} hash index{'es' if k > 1 else ''}", PAPER | {"assessment": "sria", "hashes": k})


def compared(paper: Mapping[str, Any] = PAPER) -> list[Contender]:
    return [
        Contender(AMRI, paper), Contender(OURS, {}), Contender(STATIC, paper, static=True),
        Contender(EQUAL, layout="bits"), hashed(7), Contender(EACH, layout="hash"),
    ]  # fmt: skip


def _less_memory(measured: Measurements) -> Finding:
    three = {"over 3 hash indexes": measured.ratio("bytes", {"index": AMRI}, {"index": "3 hash indexes"})}
    return check.below(three, 1.0)


hash_indexes = Experiment(
    name="9a", title="Number of hash indexes", paper=SOURCE, section="9.3", figures=("9(a)",),
    varies="hash indexes of each stem, chosen by frequency, 0 to 7", fixed=SETTING + "; nothing migrates",
    trials=trials([Contender("no index", layout="scan"), *(hashed(k) for k in range(1, 8)), Contender(AMRI, PAPER)]),
    claims=(
        Claim("Seven hash indexes give more results than fewer", more_than(BEST, [hashed(k).name for k in range(1, 7)])),
        Claim("One hash index gives more results than none", more_than("1 hash index", ["no index"]), "ours"),
        Claim("AMRI's index takes less memory than three hash indexes", _less_memory, "ours"),
    ),
    panels=panels(),
)  # fmt: skip
synthetic = Experiment(
    name="9b", title="AMRI against hash indexes and a static layout", paper=SOURCE, section="9.4", figures=("9(b)",),
    varies="the kind of index", fixed=SETTING,
    trials=trials(compared()),
    claims=(
        Claim("AMRI gives more results than the best hash indexes (93 %)", more_than(AMRI, [BEST])),
        Claim("AMRI gives more results than a static layout (75 %)", more_than(AMRI, [STATIC])),
        Claim("Our settings give more results than the paper's, the best hash indexes and static layouts, trained or equal",
              more_than(OURS, [AMRI, BEST, STATIC, EQUAL]), "ours"),
        Claim("One hash index per pattern in use beats all of them in work",
              more_than(EACH, [AMRI, OURS, STATIC, EQUAL]), "ours"),
    ),
    panels=panels(),
)  # fmt: skip
sensors = Experiment(
    name="9c", title="Sensor readings", paper=SOURCE, section="9.4", figures=("9(c)",),
    varies="the kind of index", fixed="a look-alike of the Intel lab's readings; " + SETTING,
    trials=trials(compared(LENIENT), sensor_streams),
    claims=(
        Claim("AMRI gives more results than the best hash indexes (68 %)", more_than(AMRI, [BEST])),
        Claim("AMRI gives more results than a static layout (15 %)", more_than(AMRI, [STATIC])),
    ),
    panels=panels(),
    notes=("The original data is not available; the generator is in lab/amri/streams.py. All three attributes are equal in "
           "all streams, so every probe knows all of them: there is one access pattern.",),
)  # fmt: skip
