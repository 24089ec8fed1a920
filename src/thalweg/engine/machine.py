"""The prices of this machine: measured once (`calibrate.py`) and kept in the user's cache folder, by machine and version.

THALWEG_PRICES=recorded takes `RECORDED` instead, so that decisions can be repeated anywhere. Prices change decisions,
never results.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

from thalweg.profile.prices import RECORDED, Prices


@lru_cache(maxsize=1)
def prices() -> Prices:
    """The prices of this machine: kept, or measured now and kept."""
    if os.environ.get("THALWEG_PRICES") == "recorded":
        return RECORDED
    kept = _kept()
    try:
        return Prices(**json.loads(kept.read_text()))
    except (OSError, TypeError, ValueError):
        # Only now: it loads the compiled kernels, which a worker that only filters does without.
        from thalweg.engine import calibrate

        found = calibrate.measure()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with NamedTemporaryFile("w", dir=kept.parent, delete=False) as draft:
            json.dump(found.record(), draft)
        os.replace(draft.name, kept)
    except OSError:
        pass  # a folder that can't be written costs the next process a tenth of a second
    return found


def _kept() -> Path:
    """One file for each machine and each version of what is measured."""
    machine = (
        platform.node(),
        platform.machine(),
        platform.processor(),
        str(os.cpu_count()),
        platform.python_version(),
    )
    parts = (*machine, version("thalweg"), version("numba"), version("numpy"), str(sorted(RECORDED.record())))
    name = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "thalweg" / f"prices-{name}.json"
