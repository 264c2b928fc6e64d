"""Conformance of a checker: it must find planted anomalies and nothing else."""

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from ackproof.checkers.check import check
from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.interface import PluginChecker
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.history.names import parse
from ackproof.testing.histories import CLIENTS, History, sound_history

Plant = Callable[[History], None]
"""A function that plants an anomaly by changing the rows of a history."""


class CheckerNotConforming(AssertionError):
    """A checker that does not keep its contract. The message says in what way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of checking a history.

    Attributes:
        result: The result of the check.
        guarantee: The guarantee of the checker, or None if the checker does not apply to the cell.
        details: The details of its anomalies, in order.
    """

    result: CampaignResult
    guarantee: Guarantee | None
    details: Sequence[str]


def checked(checker: PluginChecker, history: History) -> Checked:
    """Check a history in this process, with one plug-in's checker beside the built-in ones."""
    with _on_trial(checker), tempfile.TemporaryDirectory(prefix="ackproof-") as directory:
        results = Path(directory) / "made"
        history.write(results)
        return _checked(checker, results)


def check_checker(
    checker: PluginChecker,
    planted: Sequence[Plant],
    *,
    sound: Callable[[], History] = sound_history,
) -> None:
    """Test that a checker keeps its contract.

    1. The catalogue of checkers accepts it.
    2. In a sound history its guarantee holds: it finds nothing and examines something.
    3. It finds each planted anomaly, which violates its guarantee. A second check finds the same.
    4. If a file that it reads is missing or damaged, it finds nothing, and its guarantee does not
       hold, because it was not checked.
    5. Its guarantee does not hold in a history without records either.
    6. It finds nothing if a client crashed and its last second is not recorded. Its guarantee may
       hold there, because other evidence can suffice.

    Args:
        checker: The checker.
        planted: The functions that each plant an anomaly in a history of ``sound``.
        sound: Returns a new history without errors, for each proof.

    Raises CheckerNotConforming.
    """
    if not planted:
        raise ValueError("give at least one anomaly to plant: planted=[...]")
    with _on_trial(checker):
        _check_sound(checker, checked(checker, sound()))
        for number, plant in enumerate(planted):
            _check_planted(checker, sound, plant, f"planted[{number}]")
        for words, result in _incomplete(checker, sound()):
            _require_not_held(checker, result, words)
        _require_not_held(checker, checked(checker, _without_records(sound())), "without records")
        for client, tables in CLIENTS.items():
            if not checker.reads.keys().isdisjoint(tables):
                history = sound()
                history.crash(client)
                first = next(iter(checked(checker, history).details), None)
                _require(checker, first is None, f"when {client} was crashed it finds: {first}")


@contextmanager
def _on_trial(checker: PluginChecker) -> Iterator[None]:
    name = getattr(checker, "name", "the checker")
    with ExitStack() as stack:
        try:
            stack.enter_context(CATALOGUE.on_trial(checker, name))
        except ValueError as reason:
            raise CheckerNotConforming(f"{name}: {reason}") from None
        yield


def _checked(checker: PluginChecker, results: Path) -> Checked:
    result = check(results, in_process=True)
    guarantees = (one for cell in result.cells for one in cell.guarantees)
    rows = pq.read_table(results / "anomalies.parquet", columns=["anomaly", "detail"]).to_pylist()
    return Checked(
        result=result,
        guarantee=next((one for one in guarantees if one.name == checker.breaks), None),
        details=[row["detail"] for row in rows if row["anomaly"] == checker.name],
    )


def _check_sound(checker: PluginChecker, found: Checked) -> None:
    guarantee = found.guarantee
    if guarantee is None:
        raise CheckerNotConforming(
            f"{checker.name}: it does not concern the sound history, or reads a table that is not "
            f"recorded there ({', '.join(checker.reads)}); give another history: sound=..."
        )
    first = next(iter(found.details), None)
    _require(checker, first is None, f"in the sound history it finds: {first}")
    _require(
        checker,
        guarantee.held is True,
        f"it does not hold in the sound history: {guarantee.reason}",
    )
    _require(
        checker,
        found.result.verdict in (Verdict.PASS, Verdict.NOT_GUARANTEED),
        f"the sound history is {found.result.verdict.value}: {_reasons(found.result)}",
    )


def _check_planted(
    checker: PluginChecker, sound: Callable[[], History], plant: Plant, words: str
) -> None:
    history = sound()
    before = copy.deepcopy(history)
    plant(history)
    _require(checker, history != before, f"{words} changes nothing in the history")
    found, again = checked(checker, history), checked(checker, history)
    guarantee = found.guarantee
    _require(checker, guarantee is not None, f"it does not concern the history with {words}")
    assert guarantee is not None
    _require(checker, bool(found.details), f"it does not find {words}: {guarantee.reason}")
    _require(checker, guarantee.held is False, f"{words} does not break it: {guarantee.reason}")
    same = found.details == again.details
    _require(checker, same, f"it finds something else in {words} when it looks a second time")


def _incomplete(checker: PluginChecker, history: History) -> Iterator[tuple[str, Checked]]:
    """Yield the results for the history with each file that the checker reads missing, and with it
    damaged."""
    with tempfile.TemporaryDirectory(prefix="ackproof-") as directory:
        results = Path(directory) / "made"
        files = [path for path in sorted(history.write(results).iterdir()) if _reads(checker, path)]
        for path in files:
            content = path.read_bytes()
            path.unlink()
            yield f"without {path.name}", _checked(checker, results)
            path.write_bytes(content[: len(content) // 2])
            yield f"with half of {path.name}", _checked(checker, results)
            path.write_bytes(content)


def _reads(checker: PluginChecker, path: Path) -> bool:
    try:
        return parse(path.name)[0].table in checker.reads
    except ValueError:
        return False


def _without_records(history: History) -> History:
    for table in ("sends", "log", "polls", "committed", "commits"):
        for row in history.rows(table):
            history.remove(row)
    return history


def _require_not_held(checker: PluginChecker, found: Checked, words: str) -> None:
    guarantee = found.guarantee
    held = guarantee is not None and guarantee.held is True
    _require(checker, not held, f"its guarantee holds {words}")
    first = next(iter(found.details), None)
    _require(checker, first is None, f"{words} it finds: {first}")


def _require(checker: PluginChecker, holds: bool, problem: str) -> None:
    if not holds:
        raise CheckerNotConforming(f"{checker.name}: {problem}")


def _reasons(result: CampaignResult) -> str:
    found: Iterable[str] = (reason for cell in result.cells for reason in cell.reasons)
    return "; ".join((*found, *result.findings))
