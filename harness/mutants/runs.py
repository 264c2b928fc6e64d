"""The runs of campaigns on mutants of Apache Kafka, and the finding of each.

A finding is one small file, written when its run is over. So an interrupted session continues with
the missing ones, and the results of runs that found nothing need not be kept.
"""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from ackproof.checkers.verdict import Verdict
from ackproof.config import documents
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.values import format_ms
from ackproof.harness.mutants.catalogue import KafkaMutant, write_agent
from ackproof.harness.mutants.jepsen import (
    VALID,
    JepsenChecker,
    Judgement,
    jepsen_checker,
    judgement,
    together,
)
from ackproof.harness.report import verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import CachedRun, ChildProcesses, last_words
from ackproof.history import jepsen, manifest
from ackproof.history.cell import Value
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun
from ackproof.history.storage import write_text
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.kafka.product import AGENT

UNMUTATED = "unmutated"
"""The name of the release without a mutant. What is found there is no mutant's."""

_CRASHES = frozenset({"servers-stay-up"})
"""Guarantees whose violation is no find: a broker that ends says nothing of what it would lose."""
_OF_REPLICATION_TEST: Mapping[str, Value] = {
    "acks": "all",
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": False,
}
_WITHOUT_DUPLICATES: Mapping[str, Value] = {**_OF_REPLICATION_TEST, "enable.idempotence": True}
_INCOMPLETE = Judgement(errors={}, unknown=("incomplete history",))
_ERRORS = (_LOST, _DUPLICATED) = ("lost", "duplicated")
"""The errors that the rule of Kafka's own test knows."""
_RULE_FAILED = "org.jboss.byteman.rule.exception."
"""The package of the exceptions of rules that do not fit the release, or fail when they act."""
_DIGEST = 8
_CHUNK = 1 << 20


class Detection(StrEnum):
    """The result of a run on a mutant. What counts most comes first."""

    FOUND = "found"
    """A promised guarantee was broken."""
    NOT_FOUND = "not found"
    """Every guarantee held, on enough evidence, although the mutant took effect."""
    INCONCLUSIVE = "inconclusive"
    """The run did not come to its end, or had too little evidence."""
    NO_EFFECT = "no effect"
    """No server executed the changed code where it behaves differently: nothing to be found."""


def _of_former_version(stored: object) -> object:
    """Return a judgement as it is stored today. Former findings only have whether the rule of
    Kafka's own test was broken, or the errors of all cells together."""
    if isinstance(stored, bool):
        return Judgement(errors={}, unknown=(" or ".join(_ERRORS),)) if stored else VALID
    if not isinstance(stored, dict) or "valid" not in stored:
        return stored
    reasons = stored["reasons"]
    broken = stored["valid"] is False
    return {"errors": {"": reasons} if broken else {}, "unknown": [] if broken else reasons}


StoredJudgement = Annotated[Judgement, BeforeValidator(_of_former_version)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantFinding:
    """The result of one run.

    Attributes:
        guarantee: The broken guarantee, the mutant's own if it is among several; empty if none
            was broken.
        where: The cell in which it was broken.
        why: The observation, or the reason why the run is inconclusive.
        seconds: The time from the beginning of the run to its end, without the check.
        effective_on: The servers on which the mutant took effect.
        replication_test: The judgement of the same run by the rule of Kafka's own test; None
            without a cell that it could judge (:func:`ask_replication_test`).
        jepsen: The judgement of the same history by Jepsen's checker; None without a cell that it
            could judge, or if it was not asked (:func:`ask_jepsen`).
        version: The version of Ackproof.
    """

    seed: int
    detection: Detection
    guarantee: str = ""
    where: str = ""
    why: str = ""
    seconds: float | None = None
    effective_on: tuple[str, ...] = ()
    replication_test: StoredJudgement | None = None
    jepsen: StoredJudgement | None = None
    version: str = ""


_FINDING = TypeAdapter(MutantFinding)
Findings = Mapping[str, Sequence[MutantFinding]]
"""Findings by the place of their runs below the results (:meth:`MutantRuns.place`)."""
FINDINGS = TypeAdapter(dict[str, list[MutantFinding]])
"""Their file beside a page (:func:`harness.subprocesses.read_findings`)."""


# --- judgement --------------------------------------------------------------------------------


def judge(
    mutant: KafkaMutant | None, seed: int, result: VerdictDocument, effective_on: Sequence[str]
) -> MutantFinding:
    """Return what a checked run says of a mutant, or of the unmutated release if it is None."""
    broken = [
        (cell, one)
        for cell in result.cells
        if cell.is_broken
        for one in cell.guarantees
        if one.broken and one.name not in _CRASHES
    ]
    broken.sort(key=lambda pair: mutant is None or pair[1].name != mutant.guarantee)
    detection, why = _detection(mutant, result, bool(broken), bool(effective_on))
    return MutantFinding(
        seed=seed,
        detection=detection,
        guarantee=broken[0][1].name if broken else "",
        where=broken[0][0].cell if broken else "",
        why=why,
        seconds=result.duration_s,
        effective_on=tuple(effective_on),
        replication_test=ask_replication_test(result),
        version=result.versions.build,
    )


def _detection(
    mutant: KafkaMutant | None, result: VerdictDocument, broken: bool, effective: bool
) -> tuple[Detection, str]:
    causes = [one.sentence for one in result.leading_causes]
    reasons = [*causes, *result.findings, f"the verdict is {result.verdict.value}"]
    without = mutant is not None and not effective
    if broken and without:
        said = "a guarantee was broken although the mutant took no effect"
        return Detection.INCONCLUSIVE, "; ".join([said, *causes[:1]])
    if broken:
        return Detection.FOUND, reasons[0]
    if _failed(result):
        return Detection.INCONCLUSIVE, reasons[0]
    if without:
        return Detection.NO_EFFECT, ""
    if result.verdict is Verdict.PASS:
        return Detection.NOT_FOUND, ""
    return Detection.INCONCLUSIVE, reasons[0]


def ask_replication_test(result: VerdictDocument) -> Judgement | None:
    """Return the judgement of a run by the rule with which Kafka tests its own replication.

    Each acknowledged record must be consumed, and with an idempotent producer only once
    (``validate_delivery`` in ``tests/kafkatest/utils/util.py``, used by ``replication_test.py``).
    Only cells count that have the settings of that test: ``acks=all``, ``min.insync.replicas=2``
    and no unclean election. Return None without such a cell.
    """
    judged = [_by_counts(one) for one in _with_settings(result, _OF_REPLICATION_TEST)]
    return together(judged) if judged else None


def _by_counts(cell: CellDocument) -> Judgement:
    counts = {_LOST: cell.lost}
    if (cell.model_extra or {}).get("enable.idempotence"):
        counts[_DUPLICATED] = cell.duplicated
    errors = tuple(name for name, count in counts.items() if count)
    return Judgement(
        errors={cell.cell: errors} if errors else {},
        unknown=tuple(name for name, count in counts.items() if count is None),
    )


def ask_jepsen(result: VerdictDocument, directory: Path, classpath: str) -> Judgement | None:
    """Return the judgement by Jepsen's checker of the histories in ``directory``, whose result is
    given.

    The checker knows nothing of ``acks`` and counts each duplicate. So it is given only the cells
    with the settings of Kafka's own test and an idempotent producer. Return None without such a
    cell. Cells that are written in transactions are left out, because the export has no
    transactions.

    Raises InfraError if the checker fails, and DamagedFiles without a manifest.
    """
    planned = manifest.read(directory).runs
    transactional = {
        (run.number, one.cell.name) for run in planned for one in run.cells if one.transactional
    }
    suited = [
        one
        for one in _with_settings(result, _WITHOUT_DUPLICATES)
        if (one.run, one.cell) not in transactional
    ]
    if not suited:
        return None
    judged = []
    with jepsen_checker(classpath, directory.with_name(f"{directory.name}.jepsen")) as checker:
        for one in suited:
            run = next(run for run in planned if run.number == one.run)
            history = directory / "runs" / str(run.number) / "history"
            judged.append(_of_cell(one, history, run, checker))
    return together(judged)


def _of_cell(
    cell: CellDocument, history: Path, run: PlannedRun, checker: JepsenChecker
) -> Judgement:
    # Where the final read is incomplete, or records expired, Jepsen takes unread records for lost.
    if cell.lost is None or cell.forgotten is not None:
        return _INCOMPLETE
    try:
        ops = list(jepsen.recorded(history, run, {cell.topic}))
    except DamagedFiles:
        return _INCOMPLETE
    return judgement(cell.cell, checker.errors(ops))


def _with_settings(
    result: VerdictDocument, settings: Mapping[str, Value]
) -> Iterator[CellDocument]:
    """Yield the cells of a result that have these settings."""
    for cell in result.cells:
        own = cell.model_extra or {}
        if all(own.get(name) == value for name, value in settings.items()):
            yield cell


def _failed(result: VerdictDocument) -> bool:
    """Return whether a run did not come to its end, for example because no server started."""
    return not result.runs or any(run.infrastructure_failed for run in result.runs)


def effective_servers(mutant: KafkaMutant, directory: Path) -> Sequence[str]:
    """Return the servers of a result that logged that the mutant took effect, sorted."""
    return list(_servers_that_logged(mutant.announcement, directory))


def _servers_that_logged(text: str, directory: Path) -> Iterator[str]:
    for logs in sorted(directory.glob("runs/*/logs/*/")):
        if any(_holds(file, text.encode()) for file in sorted(logs.glob("*.log"))):
            yield logs.name


def _holds(file: Path, line: bytes) -> bool:
    with file.open("rb") as log:
        end = b""
        while chunk := log.read(_CHUNK):
            if line in end + chunk:
                return True
            end = chunk[-len(line) :]
    return False


# --- runs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantRuns:
    """The runs on mutants of one release.

    Attributes:
        system: The release, ``kafka:4.4.0``.
        only: The campaign for all mutants, a name or a path; None for those that they name.
        file: Returns the file of a campaign.
        within_ms: The time within which the faults of a run begin; None: as the campaign says.
        results: The directory below which each run has its own.
        byteman: Byteman's jar.
        jepsen: The class path of Jepsen's checker; None if it is not asked.
        before: The findings of other runs.
    """

    system: str
    only: str | None
    file: Callable[[str], Path]
    within_ms: int | None
    results: Path
    byteman: Path
    jepsen: str | None = None
    before: Findings = field(default_factory=dict)

    def campaign(self, mutant: KafkaMutant) -> str:
        """Return the campaign of a mutant."""
        return self.only or mutant.campaign

    def campaigns(self, mutants: Iterable[KafkaMutant]) -> Sequence[str]:
        """Return the campaigns of these mutants, each once."""
        return list(dict.fromkeys(map(self.campaign, mutants)))

    def described(self, campaigns: Sequence[str]) -> str:
        """Return the release and the campaigns in words."""
        names = ", ".join(f"`{Path(name).stem}`" for name in campaigns)
        lasts = "" if self.within_ms is None else f", {format_ms(self.within_ms)} of faults a seed"
        return f"{self.system}, {names}{lasts}"

    def check(self, mutants: Iterable[KafkaMutant]) -> None:
        """Raise DocumentRefused if the release would refuse one of the campaigns."""
        for name in self.campaigns(mutants):
            validation.check(self._file(name), meant=True, system=self.system)

    def place(self, mutant: KafkaMutant | None, campaign: str) -> Path:
        """Return the directory of the runs of a mutant. A changed mutant or campaign has another
        one, because former runs say nothing of it."""
        name, rules = (UNMUTATED, "") if mutant is None else (mutant.name, mutant.script)
        return self.results / self._release / f"{name}-{_digest(rules, self._file(campaign))}"

    def findings(self, mutant: KafkaMutant | None, campaign: str) -> list[MutantFinding]:
        """Return the findings of all runs so far, by seed."""
        place = self.place(mutant, campaign)
        found = {one.seed: one for one in self.before.get(self._key(place), ())}
        for file in place.glob("seed-*.json"):
            if (one := _read(file)) is not None:
                found[one.seed] = one
        return sorted(found.values(), key=lambda one: one.seed)

    def all_findings(self, mutants: Iterable[KafkaMutant]) -> Findings:
        """Return the findings of all runs so far of the release and these mutants, to be kept.

        What was found before is kept for other campaigns, too.
        """
        known = list(mutants)
        release = ((None, campaign) for campaign in self.campaigns(known))
        broken = ((one, self.campaign(one)) for one in known)
        found = {
            self._key(self.place(one, campaign)): self.findings(one, campaign)
            for one, campaign in chain(release, broken)
        }
        return {**self.before, **{place: some for place, some in found.items() if some}}

    def _key(self, place: Path) -> str:
        return place.relative_to(self.results).as_posix()

    def carry_out(
        self, mutant: KafkaMutant | None, campaign: str, seed: int, children: ChildProcesses
    ) -> MutantFinding:
        """Return the finding of a run, after the run unless it was run before. What was
        inconclusive on another machine is run again, because it may come to a judgement on this
        one.

        The results of a run that found nothing are deleted. Raises Interrupted, DamagedResults,
        OSError, and the errors of :func:`ask_jepsen`.
        """
        place = self.place(mutant, campaign)
        for known in self.findings(mutant, campaign):
            here = (place / f"seed-{seed}.json").exists()
            if known.seed == seed and (here or known.detection is not Detection.INCONCLUSIVE):
                return self._completed(known, place, children)
        once = CachedRun(
            file=self._file(campaign),
            system=self.system
            if mutant is None
            else self._with_agent(mutant.script, place / mutant.name),
            seed=seed,
            directory=place / f"seed-{seed}",
        )
        if not once.carry_out(children) or (result := once.result) is None:
            why = last_words(once.output)
            return MutantFinding(seed=seed, detection=Detection.INCONCLUSIVE, why=why)
        servers = () if mutant is None else effective_servers(mutant, once.directory)
        finding = judge(mutant, seed, result, servers)
        if failed := list(_servers_that_logged(_RULE_FAILED, once.directory)):
            why = f"a rule failed on {', '.join(failed)}: what was broken is not the mutant's doing"
            finding = replace(finding, detection=Detection.INCONCLUSIVE, why=why)
        _write(place, finding)
        finding = self._completed(finding, place, children)
        if finding.detection in (Detection.NOT_FOUND, Detection.NO_EFFECT):
            shutil.rmtree(once.directory, ignore_errors=True)
        return finding

    def complete(
        self, mutant: KafkaMutant | None, campaign: str, children: ChildProcesses
    ) -> Iterator[MutantFinding]:
        """Ask Jepsen's checker about each run that it was not asked about and whose results are
        kept. Yield the findings that gained its answer. Raises the errors of :meth:`carry_out`."""
        place = self.place(mutant, campaign)
        for one in self.findings(mutant, campaign):
            if (finding := self._completed(one, place, children)) != one:
                yield finding

    def _completed(
        self, finding: MutantFinding, place: Path, children: ChildProcesses
    ) -> MutantFinding:
        directory = place / f"seed-{finding.seed}"
        known = finding.jepsen is not None and "" not in finding.jepsen.errors
        if self.jepsen is None or known or not directory.exists():
            return finding
        result = verdict.read_document(directory / verdict.FILE)
        children.check()
        try:
            judged = ask_jepsen(result, directory, self.jepsen)
        except InfraError as error:
            children.check()  # the checker's process may have received the same signal
            raise InfraError(f"{directory}: {error}") from error
        # A former finding has less of the other judge, too.
        rule = ask_replication_test(result)
        finding = replace(finding, replication_test=rule, jepsen=judged)
        _write(place, finding)
        return finding

    def reached(
        self, mutants: Sequence[KafkaMutant], campaign: str, seed: int, children: ChildProcesses
    ) -> Mapping[str, Sequence[str]] | None:
        """Run the unmutated release while the conditions of all mutants are watched. Return, for
        each mutant, the servers on which it would have taken effect; None without a verdict.

        Raises the errors of :meth:`carry_out`.
        """
        rules = "\n".join(one.probe for one in mutants)
        file = self._file(campaign)
        place = self.results / self._release / f"reach-{_digest(rules, file)}"
        once = CachedRun(
            file=file,
            system=self._with_agent(rules, place / "reach"),
            seed=seed,
            directory=place / f"seed-{seed}",
        )
        if not once.carry_out(children) or (result := once.result) is None or _failed(result):
            return None
        return {one.name: effective_servers(one, once.directory) for one in mutants}

    @property
    def _release(self) -> str:
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.system)

    def _with_agent(self, rules: str, directory: Path) -> str:
        write_agent(rules, self.byteman, directory)
        return f"{self.system}{AGENT}{directory}"

    def _file(self, name: str) -> Path:
        """Return the campaign's file, or a copy of it that lasts as long as it is asked to."""
        file = self.file(name)
        if self.within_ms is None:
            return file
        lasts = format_ms(self.within_ms)
        content = documents.read(file).content
        if isinstance(content, dict) and isinstance(content.get("schedule", {}), dict):
            schedule = {**content.get("schedule", {}), "lasts": lasts}
            schedule.pop("rounds", None)
            content = {**content, "schedule": schedule}
        copy = self.results / "campaigns" / f"{file.stem}-{lasts}.yaml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_text(copy, yaml.safe_dump(content, sort_keys=False))
        return copy


def _digest(rules: str, campaign: Path) -> str:
    """Return a digest of a mutant's rules and a campaign. Comments count for nothing, and nor does
    the release that the campaign names, since another one may be broken."""
    content: Any = documents.read(campaign).content
    cluster = {key: value for key, value in content.get("cluster", {}).items() if key != "system"}
    text = rules + json.dumps({**content, "cluster": cluster}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def _write(place: Path, finding: MutantFinding) -> None:
    text = _FINDING.dump_json(finding, indent=2).decode() + "\n"
    write_text(place / f"seed-{finding.seed}.json", text)


def _read(file: Path) -> MutantFinding | None:
    """Return a stored finding; None if there is none, or its file cannot be read."""
    with contextlib.suppress(FileNotFoundError, ValidationError):
        return _FINDING.validate_json(file.read_bytes())
    return None
