"""The page of mutants of Apache Kafka, as Markdown: the content of ``docs/kafka-mutants.md``."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ackproof.harness.mutants.catalogue import KafkaMutant, MutantKind
from ackproof.harness.mutants.jepsen import Judgement, together
from ackproof.harness.mutants.runs import Detection, MutantFinding, MutantRuns
from ackproof.harness.report.chance import interval
from ackproof.history.messages import several

NOT_RUN = "not run"

_INTRODUCTION = """\
# Detection of broken Apache Kafka

A Java agent puts a bug into Apache Kafka. `ackproof mutants --list` describes each. *Found*: a \
promised guarantee was broken that the unmutated release kept in all runs, after so many minutes \
of campaigns, without checks. A mutant without effect is not judged. Intervals are of 95 % \
(Clopper and Pearson). `make kafka-mutants` runs what is missing and writes this page.

Two other judges were given the same histories; neither their clients nor their faults were run.

- `replication_test`, Kafka's own rule: each record acknowledged with acks=all and \
min.insync.replicas=2 can be read, with idempotence once.
- `jepsen.tests.kafka`, for the cells of that rule that have an idempotent producer and no \
transactions, with the final read as a last consumer.

Neither knows which losses are permitted, such as by a power failure of all replicas. So an error \
is a find (bold) only if sound servers (the unmutated release, and mutants without effect) have no \
such error in that cell, and no duplicate that may explain it. Chance has a part in these finds: a \
power failure takes records in some runs and not in others.
"""
_MINUTES = (5, 10, 60)
_SECONDS_A_MINUTE = 60
_WHY_MAX = 120
_MISSED = (Detection.NOT_FOUND, Detection.NO_EFFECT)
_CONCLUSIVE = (Detection.FOUND, Detection.NOT_FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgements:
    """The judgements of several runs together by the other judges. A judge without one has None.

    Attributes:
        replication_test: The judgement by the rule of Kafka's own test.
        jepsen: The judgement of Jepsen's checker.
    """

    replication_test: Judgement | None = None
    jepsen: Judgement | None = None

    @classmethod
    def of(cls, findings: Iterable[MutantFinding]) -> "Judgements":
        """Return what they say of the runs of these findings."""
        runs = list(findings)
        return cls(
            replication_test=_together(one.replication_test for one in runs),
            jepsen=_together(one.jepsen for one in runs),
        )

    def beyond(
        self, sound: "Judgements"
    ) -> Sequence[tuple[Judgement | None, Collection[str] | None]]:
        """Return the judgement of each judge, with the errors that it has beyond those of sound
        servers."""
        pairs = (
            (self.replication_test, sound.replication_test),
            (self.jepsen, sound.jepsen),
        )
        return [(mutant, _found(mutant, of_sound)) for mutant, of_sound in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantSummary:
    """All runs of one mutant.

    Attributes:
        detection: What the runs say together; None without a run.
        by: The run that found it, or else one that says why it was not judged.
        seconds: The time of campaigns up to the end of ``by``; None if that is not known.
        runs: The number of runs with each result.
        judgements: What the other judges say of the runs in which the mutant took effect.
        sound: What they say of the runs of sound servers in the same campaign.
    """

    detection: Detection | None = None
    by: MutantFinding | None = None
    seconds: float | None = None
    runs: Mapping[Detection, int] = field(default_factory=dict)
    judgements: Judgements = Judgements()
    sound: Judgements = Judgements()

    @property
    def others(self) -> Sequence[tuple[Judgement | None, Collection[str] | None]]:
        """Return the judgement of each other judge, and the errors by which it found the mutant."""
        return self.judgements.beyond(self.sound)


def summary(
    findings: Sequence[MutantFinding], sound: Iterable[MutantFinding] = ()
) -> MutantSummary:
    """Return the summary of a mutant's findings, given by seed. One find is enough, and a run that
    was judged counts for more than one that was not.

    ``sound``: the findings of runs in which the same campaign met no bug of a mutant. A broken
    guarantee is no find if one of them broke it, too: it may have nothing to do with the mutant.
    """
    sound = list(sound)
    own = {one.guarantee for one in sound if one.detection is Detection.FOUND}
    findings = [
        replace(one, detection=Detection.NOT_FOUND)
        if one.detection is Detection.FOUND and one.guarantee in own
        else one
        for one in findings
    ]
    effective = (one for one in findings if one.detection is not Detection.NO_EFFECT)
    for detection in Detection:
        for number, one in enumerate(findings, 1):
            if one.detection is detection:
                times = [run.seconds for run in findings[:number]]
                known = [time for time in times if time is not None]
                return MutantSummary(
                    detection=detection,
                    by=one,
                    seconds=sum(known) if len(known) == number else None,
                    runs=Counter(run.detection for run in findings),
                    judgements=Judgements.of(effective),
                    sound=Judgements.of(sound),
                )
    return MutantSummary()


def collected(
    runs: MutantRuns, mutants: Mapping[str, KafkaMutant]
) -> tuple[Mapping[str, Sequence[MutantFinding]], Mapping[str, MutantSummary]]:
    """Return the findings of the release itself, by campaign, and the summary of each mutant, by
    its name."""
    unmutated = {one: runs.findings(None, one) for one in runs.campaigns(mutants.values())}
    sound = {campaign: list(findings) for campaign, findings in unmutated.items()}
    mutated = {name: runs.findings(one, runs.campaign(one)) for name, one in mutants.items()}
    for name, one in mutants.items():
        without = (run for run in mutated[name] if run.detection is Detection.NO_EFFECT)
        sound[runs.campaign(one)] += without
    return unmutated, {
        name: summary(mutated[name], sound[runs.campaign(one)]) for name, one in mutants.items()
    }


def overview(
    system: str,
    unmutated: Mapping[str, Sequence[MutantFinding]],
    summaries: Mapping[str, MutantSummary],
) -> str:
    """Return the rows of the README's table about a release and its mutants."""
    judged = _judged(summaries.values())
    judges = ("`replication_test`, on their histories", "Jepsen's checker, on their histories")
    release = f"Apache Kafka {system.removeprefix('kafka:')}"
    rows = [
        f"| [{release}](docs/kafka-mutants.md) | campaigns | {_found_of(judged)} |",
        *(f"| | {one} | {share} |" for one, share in zip(judges, _shares(judged), strict=True)),
    ]
    for campaign, runs in unmutated.items():
        control = f"nothing, in runs of `{Path(campaign).stem}`"
        rows.append(f"| {control} | campaigns | {_found_of(runs)} |")
        alarms = zip(judges, _alarms(runs), strict=True)
        rows += [f"| | {judge} | {share} |" for judge, share in alarms if share]
    return "\n".join(rows) + "\n"


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
        *(
            f"- Unmutated, `{Path(one).stem}`: {_sound(runs) if runs else NOT_RUN}"
            for one, runs in unmutated.items()
        ),
        "",
        *_score(mutants, summaries),
        "",
        "| mutant | broken guarantee, or the result | seed | min | `replication_test` | Jepsen |",
        "| --- | --- | ---: | ---: | --- | --- |",
        *(_row(mutant, summaries[name]) for name, mutant in mutants.items()),
        *_missed([one for one in mutants.values() if summaries[one.name].detection in _MISSED]),
    ]
    return "\n".join(parts) + "\n"


def _missed(mutants: Sequence[KafkaMutant]) -> Iterator[str]:
    """Yield the mutants that no run found, each with what a campaign needs for it."""
    if mutants:
        yield "\n## Misses\n"
        yield (
            "The guarantee that each breaks, and what shows it. In these runs that was missing, "
            "came at another moment, or showed nothing.\n"
        )
        yield from (f"- `{one.name}`: {one.guarantee}; {one.needs}." for one in mutants)


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
        case _:
            assert found.by is not None
            numbers = _numbers(found)
            why = _plain(found.by.why)
            return f"{numbers}: {why}" if found.detection is Detection.INCONCLUSIVE else numbers


def _numbers(found: MutantSummary) -> str:
    """Return the numbers of runs in words: ``not found in 2 runs, inconclusive in 1 run``."""
    numbers = ((one.value, found.runs[one]) for one in Detection if found.runs[one])
    return ", ".join(f"{name} in {several(number, 'run')}" for name, number in numbers)


def judgement_words(judged: Judgement | None, errors: Collection[str] = ()) -> str:
    """Return a judgement in words, ``lost, duplicated``, with the given errors in bold."""
    if judged is None:
        return ""
    types = ", ".join(f"**{one}**" if one in errors else one for one in judged.types)
    return types or ("not known: " + ", ".join(judged.unknown) if judged.unknown else "valid")


def _together(judgements: Iterable[Judgement | None]) -> Judgement | None:
    """Return what the judgements of several runs say together. None stands for no judgement."""
    known = [one for one in judgements if one is not None]
    return together(known) if known else None


def _found(mutant: Judgement | None, sound: Judgement | None) -> Collection[str] | None:
    """Return the types of errors that another judge found in a cell of a mutant and not in that
    cell of sound servers; None if they are not known."""
    if mutant is None or (mutant.unknown and not mutant.errors):
        return None
    if not mutant.errors:
        return ()
    return None if sound is None or sound.unknown else mutant.beyond(sound)


def _versions(unmutated: Mapping[str, Sequence[MutantFinding]]) -> str:
    found = {one.version for runs in unmutated.values() for one in runs if one.version}
    return f"Ackproof {', '.join(sorted(found))}." if found else ""


def held(findings: Sequence[MutantFinding]) -> str:
    """Return the results of the unmutated release in a campaign in words: ``every guarantee held in
    4 runs (findings in 0 to 60 % of runs)``, with the 95 % interval."""
    runs = Counter(one.detection for one in findings)
    kept, broken, unsure = (
        runs[one] for one in (Detection.NOT_FOUND, Detection.FOUND, Detection.INCONCLUSIVE)
    )
    if not kept and not broken:
        return words(summary(findings))
    share = f"(findings in {interval(broken, kept + broken)} of runs)"
    parts = [f"every guarantee held in {several(kept, 'run')} {share}"]
    if broken:
        names = {one.guarantee for one in findings if one.detection is Detection.FOUND}
        said = f"**{', '.join(sorted(names))}** broken in {several(broken, 'run')}"
        parts.append(f"{said}, and no find on mutants")
    if unsure:
        parts.append(f"{Detection.INCONCLUSIVE} in {several(unsure, 'run')}")
    return ", ".join(parts)


def _sound(found: Sequence[MutantFinding]) -> str:
    judged = Judgements.of(found)
    others = [
        f"{judgement_words(one)}, errors in {share}" if share else "not asked"
        for one, share in zip((judged.replication_test, judged.jepsen), _alarms(found), strict=True)
    ]
    return f"{held(found)}; `replication_test`: {others[0]}; Jepsen: {others[1]}"


def _score(
    mutants: Mapping[str, KafkaMutant], summaries: Mapping[str, MutantSummary]
) -> Sequence[str]:
    times = [one.seconds for one in summaries.values() if one.seconds is not None]
    longest = max(times, default=0) / _SECONDS_A_MINUTE
    # A longer time than any mutant was run for would look like a measurement.
    minutes = [m for m, before in zip(_MINUTES, (0, *_MINUTES), strict=False) if before < longest]
    columns = [
        *("mutants", "judged", "found", "by `replication_test`", "by Jepsen's checker"),
        *(f"in {m} min" for m in minutes),
    ]
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for kind in MutantKind:
        those = [summaries[one.name] for one in mutants.values() if one.kind is kind]
        judged = _judged(those)
        found = [one for one in judged if one.detection is Detection.FOUND]
        curve = [
            sum(one.seconds is not None and one.seconds <= m * _SECONDS_A_MINUTE for one in found)
            for m in minutes
        ]
        cells = [len(those), len(judged), len(found), *_shares(judged), *curve]
        lines.append(f"| {kind.value} | {' | '.join(map(str, cells))} |")
    return lines


def _judged(summaries: Iterable[MutantSummary]) -> Sequence[MutantSummary]:
    return [one for one in summaries if one.detection in _CONCLUSIVE]


def _found_of(results: Iterable[MutantSummary | MutantFinding]) -> str:
    """Return how many of the conclusive results are finds in words, with the 95 % interval."""
    conclusive = [one.detection for one in results if one.detection in _CONCLUSIVE]
    found, number = conclusive.count(Detection.FOUND), len(conclusive)
    return f"{found} of {number} ({interval(found, number)})" if number else NOT_RUN


def _alarms(findings: Sequence[MutantFinding]) -> Sequence[str]:
    """Return in how many runs of the unmutated release each other judge reported errors, of those
    that it judged."""
    judged = ((one.replication_test for one in findings), (one.jepsen for one in findings))
    return [
        _share((one, None if one is None or one.unknown else tuple(one.errors)) for one in some)
        for some in judged
    ]


def _shares(judged: Sequence[MutantSummary]) -> Sequence[str]:
    """Return the share that each other judge found."""
    others = zip(*(one.others for one in judged), strict=True)
    return list(map(_share, others)) if judged else ("", "")


def _share(judged: Iterable[tuple[Judgement | None, Collection[str] | None]]) -> str:
    """Return the number of judgements with errors that count, of those of which that is known."""
    known = [bool(errors) for _, errors in judged if errors is not None]
    return f"{sum(known)} of {len(known)}" if known else ""


def _row(mutant: KafkaMutant, found: MutantSummary) -> str:
    result, seed, minutes = words(found), "", ""
    if found.detection is Detection.FOUND and found.by is not None:
        result, seed = f"**{found.by.guarantee}**", str(found.by.seed)
        minutes = "" if found.seconds is None else f"{found.seconds / _SECONDS_A_MINUTE:.0f}"
    others = (judgement_words(one, errors or ()) for one, errors in found.others)
    cells = (f"`{mutant.name}`", result, seed, minutes, *others)
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return the text as the content of a cell. Some texts come from the brokers."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    short = kept if len(kept) <= _WHY_MAX else f"{kept[:_WHY_MAX]}..."
    return short.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
