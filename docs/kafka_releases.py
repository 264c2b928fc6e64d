"""``python docs/kafka_releases.py RESULTS [VERSION ...]``: the campaign ``quick`` on releases of
Apache Kafka, and the table of their results in ``docs/kafka.md``.

Each release runs with every metadata quorum that it has, in a directory of its own below RESULTS.
A run that has a verdict there is not repeated. ``newest`` stands for the newest release on Maven
Central. Without a version these are the last patch releases of the lines 3.7 to 4.4. Ends with
status 1 if a run ended otherwise than with a pass, or with too little evidence for one.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from pages import DIRECTORY, place

sys.path.insert(0, str(DIRECTORY.parent))

from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.verdict import FILE
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka.jars import newest
from ackproof.infra.systems.product import MetadataQuorum

PAGE = DIRECTORY / "kafka.md"
VERSIONS = ("3.7.2", "3.8.1", "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
SEED = 1
ACCEPTED = (ExitStatus.HELD, ExitStatus.INCONCLUSIVE)


def run(version: str, results: Path) -> Iterator[Path]:
    """Run the campaign on a release, with each quorum that it has. Yield the directories."""
    quorums = parse(f"kafka:{version}").quorums
    for quorum in (one for one in quorums if not one.migrates):
        directory = results / f"kafka-{version}-{quorum}"
        yield directory
        if (directory / FILE).is_file():
            continue
        system = ["--system", f"kafka:{version}", "--metadata-quorum", quorum]
        command = [sys.executable, "-P", "-m", "ackproof.harness", "run", "quick", *system]
        click.echo(" ".join(command[3:]))
        subprocess.run([*command, "--seed", str(SEED), "--out", str(directory)], check=False)


def table(results: Mapping[Path, VerdictDocument | None]) -> Iterator[str]:
    """Yield the lines of the table, a row for each release and a column for each quorum, also for
    runs without a verdict."""
    by_release: dict[str, dict[str, str]] = {}
    for directory, one in results.items():
        release, quorum = directory.name.removeprefix("kafka-").split("-", 1)
        by_release.setdefault(release, {})[quorum] = "no result" if one is None else _cell(one)
    quorums = [str(one) for one in MetadataQuorum if any(one in row for row in by_release.values())]
    yield f"| release | {' | '.join(quorums)} |"
    yield f"| --- |{' --- |' * len(quorums)}"
    for release, row in by_release.items():
        yield f"| {release} | {' | '.join(row.get(one, '') for one in quorums)} |"


def _cell(one: VerdictDocument) -> str:
    """Return a verdict with the records acknowledged, and lost with acks=all."""
    acked = sum(cell.acked or 0 for cell in one.cells)
    lost = [cell.lost for cell in one.cells if cell.acks == "all"]
    known = [count for count in lost if count is not None]
    total = f"{sum(known):,}" if len(known) == len(lost) else "unknown"
    return f"{one.verdict}: {acked:,}, {total}"


def main(results: Path, versions: Sequence[str]) -> int:
    """Run, write the table, and return the exit status."""
    results.mkdir(parents=True, exist_ok=True)
    wanted = [newest(click.echo) if one == "newest" else one for one in versions]
    directories = [directory for version in wanted for directory in run(version, results)]
    documents = {directory: _verdict(directory) for directory in directories}
    for directory, one in documents.items():
        outcome = f"{one.verdict} ({one.exit_status})" if one else "no verdict"
        click.echo(f"{directory.name}: {outcome}")
    if set(VERSIONS) <= set(wanted):
        page = PAGE.read_text(encoding="utf-8")
        script = "docs/kafka_releases.py"
        PAGE.write_text(place(page, script, "releases", table(documents)), encoding="utf-8")
    passed = all(one is not None and one.exit_status in ACCEPTED for one in documents.values())
    return 0 if passed else 1


def _verdict(directory: Path) -> VerdictDocument | None:
    file = directory / FILE
    if not file.is_file():
        return None
    return VerdictDocument.model_validate_json(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:] or VERSIONS))
