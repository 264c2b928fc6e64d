"""The section of the report with the results of plug-ins' guarantees."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.verdict import Guarantee
from ackproof.harness.report.losses import Row
from ackproof.harness.report.rows import CellRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLine:
    """A guarantee of one cell, and its first anomaly as text, which is empty without any."""

    cell: str
    guarantee: Guarantee
    first: str


def lines(
    cells: Sequence[CellRow], first_rows: Mapping[tuple[int, str, str], Row]
) -> Iterator[PluginLine]:
    """Yield the results of the guarantees of plug-ins' checkers, cell by cell."""
    for cell in cells:
        for one in cell.guarantees:
            if one.plugin is not None:
                row = first_rows.get((cell.run, cell.cell, one.anomaly or ""))
                yield PluginLine(
                    cell=cell.title, guarantee=one, first="" if row is None else _words(row)
                )


def _words(row: Row) -> str:
    where = row["topic"] if row["partition"] < 0 else f"{row['topic']}-{row['partition']}"
    offset = "" if row["offset"] is None else f", offset {row['offset']}"
    fault = "no fault was active" if row["fault"] is None else row["fault"]
    return f"{where}{offset} ({fault}): {row['detail'] or ''}"


def in_short(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield each guarantee of a plug-in's checker, with the numbers of cells in which it was
    broken, held or not checked."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in (one for cell in cells for one in cell.guarantees if one.plugin is not None):
        counts.setdefault((one.name, one.plugin or ""), Counter())[became(one)] += 1
    for (name, plugin), found in counts.items():
        words = (f"{what} in {n:,} {'cell' if n == 1 else 'cells'}" for what, n in found.items())
        yield f"{name} ({plugin}): {', '.join(words)}"


def became(guarantee: Guarantee) -> str:
    """Return the result of a guarantee, in words."""
    if guarantee.is_broken:
        return "broken"
    if not guarantee.promised:
        return "not promised"
    if guarantee.held:
        return "held"
    if not guarantee.checked:
        return "not checked"
    return "undetermined" if guarantee.held is None else "not held, which is excused"
