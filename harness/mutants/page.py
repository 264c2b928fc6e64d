"""The page of mutants of Apache Kafka, as Markdown: the content of ``docs/kafka-mutants.md``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.harness.mutants.catalogue import KafkaMutant, MutantKind
from ackproof.harness.mutants.runs import Detection, MutantFinding

NOT_RUN = "not run"

_INTRODUCTION = """\
# Detection of broken Apache Kafka

Apache Kafka with a fault that is put into it when a server loads its classes. \
`ackproof mutants --list` says what each mutant breaks, its origin and what it shows with. \
*Found*: a promised guarantee was broken, after so many minutes of campaigns (without checks). \
A mutant without effect in any run is not judged. `replication_test`: whether the rule of Kafka's \
own test is broken in the same runs: each record acknowledged with acks=all and \
min.insync.replicas=2 can be read, with idempotence once. `make kafka-mutants` runs what is \
missing and writes this page.
"""
_MINUTES = (5, 10, 20, 30, 60, 120)
_SECONDS_A_MINUTE = 60
_WHY_MAX = 120
_ANSWERS: Mapping[bool | None, str] = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantSummary:
    """All runs of one mutant.

    Attributes:
        detection: What the runs say together; None without a run.
        by: The run that found it, or else one that says why it was not judged.
        seconds: The time of campaigns up to the end of ``by``; None if that is not known.
        runs: The number of runs.
        replication_test: Whether a run broke the rule of Kafka's own test; None if that is not
            known of any.
    """

    detection: Detection | None = None
    by: MutantFinding | None = None
    seconds: float | None = None
    runs: int = 0
    replication_test: bool | None = None


def summary(findings: Sequence[MutantFinding]) -> MutantSummary:
    """Return the summary of a mutant's findings, given by seed. One find is enough, and a run that
    was judged counts for more than one that was not."""
    for detection in Detection:
        for number, one in enumerate(findings, 1):
            if one.detection is detection:
                times = [run.seconds for run in findings[:number]]
                known = [time for time in times if time is not None]
                return MutantSummary(
                    detection=detection,
                    by=one,
                    seconds=sum(known) if len(known) == number else None,
                    runs=len(findings),
                    replication_test=_broken([run.replication_test for run in findings]),
                )
    return MutantSummary()


def page(
    described: str,
    unmutated: Mapping[str, Sequence[MutantFinding]],
    mutants: Mapping[str, KafkaMutant],
    summaries: Mapping[str, MutantSummary],
) -> str:
    """Return the page.

    Args:
        described: The release and the campaigns, in words.
        unmutated: The findings of the release itself, by campaign.
        summaries: The summary of each mutant, by its name.
    """
    parts = [
        _INTRODUCTION,
        f"{described}. {_versions(unmutated)}\n",
        *(f"- Unmutated, `{Path(one).stem}`: {_sound(runs)}" for one, runs in unmutated.items()),
        "",
        *_score(mutants, summaries),
        "",
        "| mutant | broken guarantee, or the result | seed | min | `replication_test` |",
        "| --- | --- | ---: | ---: | --- |",
        *(_row(mutant, summaries[name]) for name, mutant in mutants.items()),
    ]
    return "\n".join(parts) + "\n"


def words(found: MutantSummary) -> str:
    """Return a summary in words: ``found (no-acked-record-lost, seed 2, after 25 min)``."""
    match found.detection:
        case None:
            return NOT_RUN
        case Detection.FOUND:
            assert found.by is not None
            minutes = None if found.seconds is None else found.seconds / _SECONDS_A_MINUTE
            after = "" if minutes is None else f", after {minutes:.0f} min"
            return f"found ({found.by.guarantee}, seed {found.by.seed}{after})"
        case Detection.INCONCLUSIVE:
            assert found.by is not None
            return f"inconclusive in {found.runs}: {_plain(found.by.why)}"
        case other:
            return f"{other.value} in {found.runs}"


def _broken(answers: Sequence[bool | None]) -> bool | None:
    return True if True in answers else False if False in answers else None


def _versions(unmutated: Mapping[str, Sequence[MutantFinding]]) -> str:
    found = {one.version for runs in unmutated.values() for one in runs if one.version}
    return f"Ackproof {', '.join(sorted(found))}." if found else ""


def _sound(found: Sequence[MutantFinding]) -> str:
    result = summary(found)
    if result.detection is Detection.FOUND:
        return f"{words(result)}: no find counts"
    if result.detection is Detection.NOT_FOUND:
        held = sum(one.detection is Detection.NOT_FOUND for one in found)
        test = _ANSWERS[result.replication_test] or "not known"
        return f"every guarantee held in {held} of {result.runs}; `replication_test`: {test}"
    return words(result)


def _score(
    mutants: Mapping[str, KafkaMutant], summaries: Mapping[str, MutantSummary]
) -> Sequence[str]:
    columns = [f"{minutes} min" for minutes in _MINUTES]
    lines = [
        f"| | mutants | judged | found | {' | '.join(columns)} |",
        f"| --- |{' ---: |' * (len(columns) + 3)}",
    ]
    for kind in MutantKind:
        those = [summaries[one.name] for one in mutants.values() if one.kind is kind]
        judged = [one for one in those if one.detection in (Detection.FOUND, Detection.NOT_FOUND)]
        found = [one for one in judged if one.detection is Detection.FOUND]
        curve = [
            sum(one.seconds is not None and one.seconds <= m * _SECONDS_A_MINUTE for one in found)
            for m in _MINUTES
        ]
        cells = [len(those), len(judged), len(found), *curve]
        lines.append(f"| {kind.value} | {' | '.join(map(str, cells))} |")
    return lines


def _row(mutant: KafkaMutant, found: MutantSummary) -> str:
    result, seed, minutes = words(found), "", ""
    if found.detection is Detection.FOUND and found.by is not None:
        result, seed = f"**{found.by.guarantee}**", str(found.by.seed)
        minutes = "" if found.seconds is None else f"{found.seconds / _SECONDS_A_MINUTE:.0f}"
    cells = (f"`{mutant.name}`", result, seed, minutes, _ANSWERS[found.replication_test])
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return the text as the content of a cell. Some texts come from the brokers."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    short = kept if len(kept) <= _WHY_MAX else f"{kept[:_WHY_MAX]}..."
    return short.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
