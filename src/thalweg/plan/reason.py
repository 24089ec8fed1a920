"""A reason: why something was decided, as facts and a sentence with gaps for them, formatted when shown.

Facts are plain JSON values, so a program that reads events need not parse prose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Fact = str | int | float | bool | None


@dataclass(frozen=True)
class Reason:
    """A sentence with gaps, and the facts that fill them.

    >>> why = Reason.of("{first} drops {share:.0%} of the rows", first="late", share=0.25)
    >>> str(why), why.facts["share"]
    ('late drops 25% of the rows', 0.25)
    """

    sentence: str
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @classmethod
    def of(cls, sentence: str | Reason, **facts: Fact) -> Reason:
        """A reason from a sentence and its facts; a sentence without facts may contain braces."""
        return sentence if isinstance(sentence, Reason) else cls(sentence, facts)

    def then(self, other: Reason) -> Reason:
        """This reason and another as one. Facts of one name stay apart.

        >>> both = Reason.of("{rows} rows wait", rows=3).then(Reason.of("up to {rows} may", rows=9))
        >>> str(both), dict(both.facts)
        ('3 rows wait; up to 9 may', {'rows': 3, 'rows_2': 9})
        """
        if not (self.facts or other.facts):
            return Reason(f"{self}; {other}")
        names = dict[str, str]()
        for name in other.facts:
            taken = [name, *(f"{name}_{k}" for k in range(2, len(self.facts) + len(other.facts) + 2))]
            names[name] = next(n for n in taken if n not in self.facts and (n == name or n not in other.facts))
        sentence = re.sub(r"{(\w+)(?=[:!}])", lambda gap: "{" + names.get(gap[1], gap[1]), _with_gaps(other))
        facts = {**self.facts, **{names[name]: fact for name, fact in other.facts.items()}}
        return Reason(f"{_with_gaps(self)}; {sentence}", facts)

    def __str__(self) -> str:
        return self.sentence.format_map(self.facts) if self.facts else self.sentence

    def record(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "facts": dict(self.facts)}


def _with_gaps(reason: Reason) -> str:
    """A sentence that can be formatted, also where it has no facts and its braces are plain."""
    return reason.sentence if reason.facts else reason.sentence.replace("{", "{{").replace("}", "}}")
