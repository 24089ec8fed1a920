"""A reason: why something was decided, as facts and a sentence with gaps for them, formatted when shown.

Facts are plain JSON values, so a program that reads events need not parse prose.
"""

from __future__ import annotations

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

    def __str__(self) -> str:
        return self.sentence.format_map(self.facts) if self.facts else self.sentence

    def record(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "facts": dict(self.facts)}
