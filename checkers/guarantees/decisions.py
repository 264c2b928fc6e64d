"""The decision on verdicts. Only this module turns an anomaly into a failure.

The guarantees are a table (:mod:`checkers.guarantees.table`), to which plug-ins add theirs.

A violated guarantee fails its cell even if other evidence is missing. A pass takes all the
evidence. A loss for which it is unknown whether the guarantee applied leads to neither.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof.checkers.checks.catalogue import CATALOGUE, plugin_checkers
from ackproof.checkers.context.status import FORGOTTEN, GuaranteeStatus
from ackproof.checkers.guarantees.facts import Facts, PluginCheck, Readers, planned_checks
from ackproof.checkers.guarantees.findings import GuaranteeFinding, complete_evidence, of_plugin
from ackproof.checkers.guarantees.table import (
    BUILT_IN,
    GUARANTEES,
    NO_LOSS,
    STAYS_UP,
    GuaranteeRule,
)
from ackproof.checkers.interface import guarantee_of
from ackproof.checkers.verdict import Guarantee, Verdict
from ackproof.history.manifest import PlannedCell, PlannedRun


def _of_plugin(check: PluginCheck) -> GuaranteeRule:
    return GuaranteeRule(
        name=guarantee_of(check.checker),
        words=check.guarantee,
        judge=of_plugin(check),
        plugin=check.plugin,
    )


def guarantees() -> Mapping[str, str]:
    """Return the sentence of every guarantee by its name: the built-in ones, then those of
    plug-ins."""
    plugged = {guarantee_of(name): one.guarantee for name, one in plugin_checkers().items()}
    return {**GUARANTEES, **plugged}


def judged(facts: Facts) -> tuple[tuple[Guarantee, ...], tuple[str, ...]]:
    """Return the guarantees of a cell and whether they held, and a sentence for each violation that
    leaves something undecided."""
    concerned = [promise for promise in BUILT_IN if promise.scope.includes(facts)]
    concerned += map(_of_plugin, facts.plugin_checks)
    findings = [
        (promise, _with_reason(promise.judge(facts), facts.unchecked.get(promise.name)))
        for promise in concerned
    ]
    guarantees = tuple(_guarantee(promise, found, facts) for promise, found in findings)
    return guarantees, tuple(
        open_ for promise, found in findings for open_ in _open(promise, found)
    )


def _with_reason(found: GuaranteeFinding, unchecked: str | None) -> GuaranteeFinding:
    """Return the finding with the planned reason why its guarantee is unchecked, if any."""
    if unchecked is None or not found.applies:
        return found
    return replace(found, unobserved=unchecked)


# --- forecast ------------------------------------------------------------------------------------


class Prospect(StrEnum):
    """The prospect of a guarantee in a cell, for a run with complete evidence."""

    CHECKED = "checked"
    UNCHECKED = "not checked"
    UNPROMISED = "not promised"
    """The settings of the cell do not promise the guarantee. Its anomalies fail nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeForecast:
    """The forecast for one guarantee in a cell. ``reason`` is empty if it will be checked."""

    name: str
    prospect: Prospect
    reason: str = ""


def forecast(run: PlannedRun, planned: PlannedCell) -> Iterator[GuaranteeForecast]:
    """Yield what a planned run will do about each guarantee in a cell. The same judges decide as
    after the run, here for a run with complete evidence and without an anomaly."""
    facts = Facts(
        cell=planned.cell,
        counts=complete_evidence(planned.cell),
        readers=Readers.planned(run, planned),
        transactional=planned.transactional,
        tombstones=planned.tombstones,
        plugin_checks=tuple(planned_checks(run, planned)),
        unchecked=run.unchecked,
    )
    for promise in (*BUILT_IN, *map(_of_plugin, facts.plugin_checks)):
        yield _forecast(promise, facts)


def _forecast(promise: GuaranteeRule, facts: Facts) -> GuaranteeForecast:
    if not promise.scope.includes(facts):
        prospect, reason = Prospect.UNCHECKED, promise.scope.otherwise
    else:
        found = _with_reason(promise.judge(facts), facts.unchecked.get(promise.name))
        lacking = [one for one in (*found.missing_evidence, found.unobserved) if one]
        if lacking and found.applies:
            prospect, reason = Prospect.UNCHECKED, lacking[0]
        elif found.promised and found.applies:
            prospect, reason = Prospect.CHECKED, ""
        else:
            prospect, reason = Prospect.UNPROMISED, found.why
    return GuaranteeForecast(name=promise.name, prospect=prospect, reason=reason)


# --- verdicts ------------------------------------------------------------------------------------


def verdict(
    facts: Facts, guarantees: Iterable[Guarantee], doubtful: Iterable[str]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of a cell and the reasons for it, the decisive ones first."""
    found = list(guarantees)
    # The crash of a server may be the cause of everything else.
    in_order = sorted(found, key=lambda one: one.name != STAYS_UP)
    broken = [f"{g.name}: {g.reason}" for g in in_order if g.broken]
    crashed = [f"the checker {name} failed" for name in sorted(facts.crashed)]
    lacking = [*facts.gaps, *doubtful, *crashed]
    no_loss = next(one for one in found if one.name == NO_LOSS)
    conclusion, reasons = _conclusion(broken, lacking, no_loss)
    if facts.baseline and conclusion is Verdict.PASS:
        reasons = [*reasons, "a baseline: no fault was ordered"]
    return conclusion, tuple(f"{facts.cell.name}: {reason}" for reason in reasons)


def campaign_verdict(cells: Iterable[Verdict], gaps: Iterable[str]) -> Verdict:
    """Return the verdict of a campaign, which is the worst of those that its cells count as.

    If every cell is not-guaranteed, so is the campaign. No guarantee was violated, but ``pass``
    would claim that a guarantee about loss was kept.

    Args:
        cells: :attr:`checkers.verdict.CellResult.counts_as` of the cells.
        gaps: The evidence that the whole campaign lacks.
    """
    seen = set(cells)
    if Verdict.FAIL in seen:
        return Verdict.FAIL
    if not seen or Verdict.INCONCLUSIVE in seen or any(gaps):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS if Verdict.PASS in seen else Verdict.NOT_GUARANTEED


def _conclusion(
    broken: list[str], lacking: list[str], no_loss: Guarantee
) -> tuple[Verdict, list[str]]:
    if broken:
        return Verdict.FAIL, broken + lacking
    if lacking:
        return Verdict.INCONCLUSIVE, lacking
    reasons = [f"{no_loss.name}: {no_loss.reason}"]
    return (Verdict.PASS if no_loss.promised else Verdict.NOT_GUARANTEED), reasons


def _guarantee(promise: GuaranteeRule, found: GuaranteeFinding, facts: Facts) -> Guarantee:
    held = _held(found, facts)
    lacking = _lacking(found, facts) if held is None else ""
    offences = found.broken or found.seen
    # A guarantee may cover only some records, for example that acked records are in order. Others
    # need not be.
    excused = (
        f"; {found.seen:,} {found.what} where the guarantee does not apply" if found.seen else ""
    )
    seen = {
        False: f"{offences:,} {found.what}",
        None: f"the evidence does not show whether it held ({lacking})",
        True: "held",
    }
    if promise.name == NO_LOSS:
        forgotten = facts.count(FORGOTTEN)
        acked = f"of {facts.count('acked') - forgotten:,} acked records lost"
        apart = f"; {forgotten:,} more were removed by cleanup.policy" if forgotten else ""
        some = facts.count("acked") > facts.count("acked", GuaranteeStatus.UNPROMISED)
        none = "; no lost record was promised" if some and not found.broken else ""
        seen |= {False: f"{offences:,} {acked}{none}{apart}", True: f"none {acked}{apart}"}
    return Guarantee(
        name=promise.name,
        promise=promise.words,
        promised=found.promised or found.broken > 0,
        held=held,
        broken=found.broken,
        undecided=found.doubtful,
        found=found.seen,
        checked=held is not None or _checked(found, facts),
        lacking=lacking,
        anomaly=found.what if promise.plugin or found.what in CATALOGUE else None,
        plugin=promise.plugin,
        reason=f"{found.why}: {seen[held]}{'' if held is False else excused}",
    )


def _checked(found: GuaranteeFinding, facts: Facts) -> bool:
    """Return whether nothing was left out that could have shown a violation."""
    if not facts.whole or found.missing_evidence or found.what in facts.crashed:
        return False
    return bool(not found.unobserved and found.examined) or not found.applies


def _lacking(found: GuaranteeFinding, facts: Facts) -> str:
    """Return which evidence is missing to say whether a guarantee held."""
    if found.doubtful:
        return f"{found.doubtful:,} {found.what}, but it is unknown whether the guarantee applied"
    if found.what in facts.crashed:
        return f"the checker {found.what} failed"
    lacking = [one for one in (*found.missing_evidence, found.unobserved, *facts.gaps) if one]
    if not lacking:
        return "there was nothing to examine"
    more = f"; {len(lacking) - 1:,} more such gaps of evidence" if len(lacking) > 1 else ""
    return f"{lacking[0]}{more}"


def _held(found: GuaranteeFinding, facts: Facts) -> bool | None:
    if found.broken:
        return False
    if found.doubtful:
        return None
    if found.seen and not found.promised:
        return False
    complete = found.examined and not found.unobserved and not found.missing_evidence
    if not complete or facts.gaps or found.what in facts.crashed:
        return None
    return True


def _open(promise: GuaranteeRule, found: GuaranteeFinding) -> Iterable[str]:
    if found.doubtful:
        count = f"{found.doubtful:,} {found.what}"
        yield (
            f"{promise.name}: {count}, but it is unknown whether the guarantee applied: {found.why}"
        )
    for words in found.missing_evidence:
        yield f"{promise.name}: {words}"
