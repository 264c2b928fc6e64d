"""``ackproof mutants``: what campaigns find of an Apache Kafka that is broken on purpose."""

from collections.abc import Collection, Sequence
from pathlib import Path

import click

from ackproof.config.suggestions import unknown
from ackproof.harness import directory as places
from ackproof.harness.campaign.model.values import parse_ms
from ackproof.harness.commands import options
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.mutants.catalogue import (
    KafkaMutant,
    catalogue,
    fetch_byteman,
)
from ackproof.harness.mutants.jepsen import CLASSPATH, jepsen_checker
from ackproof.harness.mutants.page import (
    MutantSummary,
    collected,
    held,
    judgement_words,
    page,
    summary,
    words,
)
from ackproof.harness.mutants.runs import (
    FINDINGS,
    UNMUTATED,
    Detection,
    MutantFinding,
    MutantRuns,
)
from ackproof.harness.subprocesses import (
    ChildProcesses,
    Interrupted,
    read_findings,
    write_findings,
)
from ackproof.history.storage import write_text
from ackproof.infra.systems import parse, prepare
from ackproof.infra.systems.kafka.product import KafkaBuild

SYSTEM = "kafka:4.4.0"
"""The release that the catalogue was written for."""


def _release(_context: click.Context, _option: click.Parameter, text: str) -> str:
    try:
        build = parse(text)
    except ValueError as refusal:
        raise click.BadParameter(str(refusal)) from None
    if not isinstance(build, KafkaBuild) or build.release.agent is not None:
        raise click.BadParameter(f"{text}: mutants are made of one release, such as {SYSTEM}")
    return build.text


def _campaign(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    try:
        return text and str(options.campaign_file(Path(text)))
    except options.UnknownCampaign as refusal:
        raise click.BadParameter(str(refusal)) from None


def _within(_context: click.Context, _option: click.Parameter, text: str) -> int | None:
    if text == "all":
        return None
    try:
        return parse_ms(text)
    except ValueError as refusal:
        raise click.BadParameter(f"{refusal}, or all for the whole campaign") from None


@click.command(
    epilog="""\b
Examples:
  ackproof mutants --list                        what there is, and what each mutant breaks
  ackproof mutants                               every mutant, one seed, as root; two hours
  ackproof mutants --seeds 3                     go on with more seeds until each one is found
  ackproof mutants --campaign nightly-kraft --within 20m
  ackproof mutants isr-joined-at-once --campaign mine.yaml
  ackproof mutants --seeds 0                     the page alone, of what was run
  ackproof mutants unmutated --seeds 20          no mutant: how often sound servers give a finding
  ackproof mutants --reach                       which mutants the campaigns reach, in one run each

\b
Exit status: 0 each mutant was found, or without mutants nothing; 1 the unmutated release broke a
guarantee; 2 bad usage or campaign file; 3 a mutant was not found or not judged, or the session was
interrupted; 5 a file, Maven, Jepsen or a backend could not be used.
""",
)
@click.argument("wanted", metavar="[MUTANT]...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the mutants, and do nothing else.")
@click.option(
    "--reach",
    is_flag=True,
    help=(
        "Run the campaigns on the unmutated release with one seed, and report on which servers "
        "each mutant would have taken effect."
    ),
)
@click.option(
    "--system",
    callback=_release,
    default=SYSTEM,
    show_default=True,
    help="Break this release. The rules are written for the default.",
)
@click.option(
    "--campaign",
    "file",
    callback=_campaign,
    metavar="CAMPAIGN",
    help=(
        "Run this campaign on every mutant. "
        "[default: a short one of their own, or the one that the mutant names]"
    ),
)
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Run the seeds 1 to N on each mutant, until one finds it.",
)
@click.option(
    "--within",
    "within_ms",
    callback=_within,
    default="all",
    metavar="DURATION",
    help="Begin the faults of each run within this time. [default: as the campaign says]",
)
@click.option(
    "--jepsen",
    envvar=CLASSPATH,
    metavar="CLASSPATH",
    help=(
        "Ask Jepsen's Kafka checker about the same histories, also of earlier runs whose results "
        f"are kept. CLASSPATH has Jepsen and what it needs. [env var: {CLASSPATH}]"
    ),
)
@options.kept_results(Path("results/mutants"), "kafka-mutants.md")
@click.pass_context
def mutants(
    context: click.Context,
    wanted: tuple[str, ...],
    listing: bool,
    reach: bool,
    system: str,
    file: str | None,
    seeds: int,
    within_ms: int | None,
    jepsen: str | None,
    results: Path,
    out: Path | None,
) -> None:
    """Put bugs into Apache Kafka, one at a time, and report which of them campaigns find.

    A JVM agent changes classes of each server when they are loaded. The unmutated release runs the
    same campaigns first, and alone if MUTANT is `unmutated`. A mutant counts as found if a promised
    guarantee was broken that the unmutated release kept in all of its runs. Results are kept: after
    Ctrl-C, the same command continues with the rest. The findings of all runs are in a file beside
    the page (kafka-mutants.json), and need not be run again on another machine.
    """
    known = catalogue()
    chosen = {name: known[name] for name in _chosen(wanted, list(known))}
    concerned = list((chosen or known).values())
    if listing:
        click.echo("\n".join(map(_described, chosen.values())))
        return
    with reported_errors():
        made = out or results / "kafka-mutants.md"
        for directory in (results, made.parent):
            places.require_writable(directory)
        kept = made.with_suffix(".json")
        prepare(system, click.echo)
        runs = MutantRuns(
            system=system,
            only=file,
            file=lambda name: options.campaign_file(Path(name)),
            within_ms=within_ms,
            results=results.absolute(),
            byteman=fetch_byteman(click.echo),
            jepsen=jepsen or None,
            before=read_findings(kept, FINDINGS),
        )
        runs.check(concerned)
        if reach:
            context.exit(_reach(runs, concerned))
        if runs.jepsen is not None and seeds:
            _try_jepsen(runs.jepsen, results)
        finished = _carry_out(runs, list(chosen.values()), list(known.values()), seeds)
        unmutated, found = collected(runs, known)
        made.parent.mkdir(parents=True, exist_ok=True)
        write_findings(kept, runs.all_findings(known.values()), FINDINGS)
        write_text(made, page(runs.described(list(unmutated)), unmutated, known, found))
        for campaign in runs.campaigns(concerned):
            click.echo(f"{UNMUTATED}, {Path(campaign).stem}: {held(unmutated[campaign])}")
        for name in chosen:
            click.echo(f"{name}: {words(found[name])}")
        click.echo(str(made))
    release = [summary(findings) for findings in unmutated.values()]
    context.exit(_status(finished, release, [found[name] for name in chosen]))


def _try_jepsen(classpath: str, results: Path) -> None:
    """Start Jepsen's checker, so that a class path that lacks something is reported now and not
    after the first campaign. Raises InfraError."""
    results.mkdir(parents=True, exist_ok=True)
    with jepsen_checker(classpath, results / "jepsen.log"):
        click.echo("Jepsen's checker will judge each history")


def _chosen(wanted: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the names of the chosen mutants: none if the unmutated release alone is chosen."""
    for name in wanted:
        if name not in (*known, UNMUTATED):
            fail(f"{unknown('mutant', name, known)}; see --list", ExitStatus.USAGE)
    return [name for name in wanted if name != UNMUTATED] if wanted else known


def _described(mutant: KafkaMutant) -> str:
    return (
        f"{mutant.name}: {mutant.breaks}\n"
        f"    {mutant.kind}: {mutant.origin}; breaks {mutant.guarantee}\n"
        f"    shows in {mutant.campaign} with {mutant.needs}"
    )


def _carry_out(
    runs: MutantRuns, mutants: Sequence[KafkaMutant], known: Sequence[KafkaMutant], seeds: int
) -> bool:
    """Run the unmutated release and the chosen mutants with each seed, and return whether that was
    done to the end. All mutants come with the first seed first, so that each soon has a result.
    Without mutants, the release runs the campaigns of all. Then complete the findings of all known
    mutants."""
    children = ChildProcesses()
    children.install()
    try:
        for seed in range(1, seeds + 1):
            for campaign in runs.campaigns(mutants or known):
                finding = _run(runs, None, campaign, seed, children)
                if finding.detection is Detection.FOUND:
                    click.echo(f"  on a mutant, {finding.guarantee} is no find from now on")
            for one in mutants:
                campaign = runs.campaign(one)
                sound = runs.findings(None, campaign)
                if summary(runs.findings(one, campaign), sound).detection is not Detection.FOUND:
                    _run(runs, one, campaign, seed, children)
        _complete(runs, known, children)
    except Interrupted:
        click.echo("interrupted; the same command continues with the rest")
        return False
    return True


def _complete(runs: MutantRuns, known: Sequence[KafkaMutant], children: ChildProcesses) -> None:
    """Complete all findings with the answer of Jepsen's checker, and print the answers."""
    places = [(None, campaign) for campaign in runs.campaigns(known)]
    for mutant, campaign in [*places, *((one, runs.campaign(one)) for one in known)]:
        name = UNMUTATED if mutant is None else mutant.name
        for finding in runs.complete(mutant, campaign, children):
            said = judgement_words(finding.jepsen)
            click.echo(f"{name}, {Path(campaign).stem}, seed {finding.seed}: Jepsen: {said}")


def _reach(runs: MutantRuns, chosen: Sequence[KafkaMutant]) -> ExitStatus:
    """Print which mutants the campaigns reach, and return HELD if that is all of them."""
    children = ChildProcesses()
    children.install()
    complete = True
    for campaign in runs.campaigns(chosen):
        those = [one for one in chosen if runs.campaign(one) == campaign]
        click.echo(f"{Path(campaign).stem}, seed 1, {len(those)} mutants watched")
        try:
            reached = runs.reached(those, campaign, 1, children)
        except Interrupted:
            click.echo("interrupted")
            return ExitStatus.INCONCLUSIVE
        if reached is None:
            click.echo(f"{campaign} came to no verdict; its output is in {runs.results}")
            complete = False
            continue
        for name, servers in reached.items():
            click.echo(f"{name}: {', '.join(servers) or 'not reached'}")
        complete &= all(reached.values())
    return ExitStatus.HELD if complete else ExitStatus.INCONCLUSIVE


def _run(
    runs: MutantRuns,
    mutant: KafkaMutant | None,
    campaign: str,
    seed: int,
    children: ChildProcesses,
) -> MutantFinding:
    name = UNMUTATED if mutant is None else mutant.name
    click.echo(f"{name}, {Path(campaign).stem}, seed {seed}: {runs.place(mutant, campaign)}")
    finding = runs.carry_out(mutant, campaign, seed, children)
    said = (finding.detection, finding.guarantee, finding.where, finding.why)
    click.echo(f"  {', '.join(filter(None, said))}")
    return finding


def _status(
    finished: bool,
    unmutated: Collection[MutantSummary],
    mutants: Collection[MutantSummary],
) -> ExitStatus:
    if any(one.detection is Detection.FOUND for one in unmutated):
        return ExitStatus.BROKEN
    wanted = Detection.FOUND if mutants else Detection.NOT_FOUND
    if finished and all(one.detection is wanted for one in mutants or unmutated):
        return ExitStatus.HELD
    return ExitStatus.INCONCLUSIVE
