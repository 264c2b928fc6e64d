"""The forecast of a run's guarantees, compared with what the run said of them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ackproof.checkers.guarantees.decisions import GuaranteeForecast, Prospect, forecast
from ackproof.history import manifest


def contradictions(directory: Path, *, complete: bool = False) -> list[str]:
    """Return where the verdicts of these results say something else than the forecast from their
    manifest. With ``complete`` evidence, every guarantee with that forecast must be checked."""
    document = json.loads((directory / "verdict.json").read_text(encoding="utf-8"))
    found = {
        (cell["run"], cell["cell"]): {one["name"]: one for one in cell["guarantees"]}
        for cell in document["cells"]
    }
    return [
        f"{planned.cell.name}: {words}"
        for run in manifest.read(directory).runs
        for planned in run.cells
        for words in compared(
            list(forecast(run, planned)),
            found[run.number, planned.cell.name],
            complete=complete,
        )
    ]


def compared(
    forecasts: list[GuaranteeForecast],
    guarantees: Mapping[str, Mapping[str, Any]],
    *,
    complete: bool,
) -> Iterator[str]:
    """Yield the contradictions in one cell. ``guarantees`` are those of the result, by name."""
    if unforeseen := guarantees.keys() - {one.name for one in forecasts}:
        yield f"no forecast of {sorted(unforeseen)}"
    for one in forecasts:
        found = guarantees.get(one.name)
        if one.prospect is Prospect.UNCHECKED:
            right = found is None or not found["checked"]
        elif one.prospect is Prospect.UNPROMISED:
            right = found is not None and not found["promised"]
        else:
            right = found is not None and (found["checked"] or not complete)
        if not right:
            yield f"{one.name}: {one.prospect} ({one.reason}), but the result is {found}"
