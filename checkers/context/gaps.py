"""What the evidence lacks, and which cells lack it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ackproof.history.schema import CONSUMPTION, MEASURES

UNJUDGED = CONSUMPTION | MEASURES | {"collected"}
"""Tables whose evidence no cell lacks: what is missing of them is told. What consumers recorded may
fail a cell all the same; where it is missing, what was promised to them is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that the manifest names and the history lacks, or that is not proven.

    Attributes:
        words: What is missing, a sentence.
        cells: The names of the cells concerned; None for all of the run.
    """

    words: str
    cells: frozenset[str] | None = None


def of_all(words: Iterable[str]) -> Iterator[Gap]:
    """Gaps of every cell of the run."""
    return (Gap(words=each) for each in words)


def concerning(gaps: Iterable[Gap], cell: str) -> Iterator[str]:
    """What a cell lacks, in words, each once."""
    return iter(dict.fromkeys(g.words for g in gaps if g.cells is None or cell in g.cells))


_NAMED_MAX = 3


def folded(findings: Iterable[str]) -> Iterator[str]:
    """Yield findings, with one sentence for many that say the same of different things
    (``t-0: no final read``): a run that is cut short leaves dozens of them."""
    alike: dict[str, list[str]] = {}
    for finding in dict.fromkeys(findings):
        alike.setdefault(finding.partition(": ")[2] or finding, []).append(finding)
    for words, some in alike.items():
        if len(some) <= _NAMED_MAX:
            yield from some
            continue
        named = ", ".join(one.partition(": ")[0] for one in some[:_NAMED_MAX])
        yield f"{words}: {named} and {len(some) - _NAMED_MAX} more"
