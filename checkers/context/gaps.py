"""Gaps: missing evidence, and the cells that it concerns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ackproof.history.names import CONSUMPTION, MEASURES

UNJUDGED = CONSUMPTION | MEASURES | {"collected"}
"""Tables whose missing evidence makes no cell inconclusive; it is only reported. Records of
consumers can make a cell fail. If they are missing, the guarantees to consumers are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Evidence that the manifest names and the history lacks, or that is not proven.

    Attributes:
        words: A sentence that says what is missing.
        cells: The names of the cells that it concerns, or None for all cells of the run.
    """

    words: str
    cells: frozenset[str] | None = None


def of_all(words: Iterable[str]) -> Iterator[Gap]:
    """Return gaps that concern every cell of the run."""
    return (Gap(words=each) for each in words)


def concerning(gaps: Iterable[Gap], cell: str) -> Iterator[str]:
    """Return the sentences about the gaps of a cell, each once."""
    return iter(dict.fromkeys(g.words for g in gaps if g.cells is None or cell in g.cells))


_NAMED_MAX = 3


def folded(findings: Iterable[str]) -> Iterator[str]:
    """Yield findings, with one sentence in place of many that say the same about different things
    (``t-0: no final read``). A run that is cut short has dozens of them."""
    alike: dict[str, list[str]] = {}
    for finding in dict.fromkeys(findings):
        alike.setdefault(finding.partition(": ")[2] or finding, []).append(finding)
    for words, some in alike.items():
        if len(some) <= _NAMED_MAX:
            yield from some
            continue
        named = ", ".join(one.partition(": ")[0] for one in some[:_NAMED_MAX])
        yield f"{words}: {named} and {len(some) - _NAMED_MAX} more"
