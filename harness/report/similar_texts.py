"""Texts that differ only in names and numbers, such as the same finding about several partitions.

A broken cluster produces one finding for each client and partition. A reader needs each kind once,
with its count.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_VARIABLE = re.compile(r"\S*\d\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarTexts:
    """Texts of one kind, in their order. There is at least one."""

    texts: Sequence[str]

    @property
    def first(self) -> str:
        return self.texts[0]

    @property
    def others(self) -> Sequence[str]:
        """Return the texts after the first one."""
        return self.texts[1:]

    @property
    def in_short(self) -> str:
        """Return the first text, with the number of the others."""
        return f"{self.first}{more_of_this_kind(len(self.others))}"


def more_of_this_kind(count: int) -> str:
    """Return how many texts of a kind are not shown, as the end of the one that is."""
    return f" (and {count:,} more of this kind)" if count else ""


def kind_of(text: str) -> str:
    """Return a text without its variable parts: each word with a digit is replaced."""
    return _VARIABLE.sub("#", text)


def grouped(texts: Iterable[str]) -> list[SimilarTexts]:
    """Return the texts by kind, in the order of the first of each."""
    kinds: dict[str, list[str]] = {}
    for text in texts:
        kinds.setdefault(kind_of(text), []).append(text)
    return [SimilarTexts(texts=tuple(of)) for of in kinds.values()]
