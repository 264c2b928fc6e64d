"""What is known is not looked for again, what was interrupted is, and the page says it all."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.harness.children import Children, Interrupted
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.selftest import table
from ackproof.harness.selftest.attempt import SOUND, Attempt, Attempts, Finding, Outcome, Way
from ackproof.harness.selftest.catalogue import Bug, catalogue, digest
from ackproof.harness.selftest.display import Display
from ackproof.harness.selftest.rounds import AtWork, Round, Told, opened
from ackproof.harness.selftest.session import carry_out
from ackproof.harness.selftest.simulator import Simulator

BUGS = catalogue()
DAY = date(2026, 11, 27)
LOUD, QUIET = BUGS["acks-all-answered-at-append"], BUGS["fsync-skipped"]
FOUND = Finding(
    outcome=Outcome.FOUND, by="AckedIsCommitted", where="seed 7", looked="8 seeds", seconds=2.4
)
NOTHING = Finding(outcome=Outcome.NOT_FOUND, looked="90 seeds", seconds=60.2)
NOTHING_CERTAIN = Finding(outcome=Outcome.INCONCLUSIVE, why="it|broke <off>\n")


@dataclass
class Looker:
    """Says what it is told to, of a broker that it recognises by its source."""

    says: Callable[[str], Finding]
    settings: str = "60 s"
    way: Way = Way.SIMULATOR
    jobs: int = 2
    looked_at: list[str] = field(default_factory=list)

    def has_done(self, attempt: Attempt) -> bool:
        return attempt.settings == self.settings

    def look(self, sources: Path, place: Path) -> Finding:
        assert (sources / "ackproof" / "broker" / "replication" / "leader.py").is_file()
        assert (sources / "ackproof" / "harness" / "selftest").is_dir()
        self.looked_at.append(place.name)
        return self.says(place.name)

    def confirmed(self, finding: Finding, place: Path) -> Finding:  # noqa: ARG002
        return finding


def rounds_of(looker: Looker, *bugs: Bug | None) -> list[Round]:
    return [Round(bug, looker) for bug in bugs]


def test_what_is_known_is_not_looked_for_again(tmp_path: Path) -> None:
    looker = Looker(lambda name: FOUND if name == LOUD.name else NOTHING)
    with opened(tmp_path, Told()) as rounds:
        rounds.carry_out(rounds_of(looker, LOUD))
    with opened(tmp_path, Told()) as again:
        again.carry_out(rounds_of(looker, LOUD, QUIET))
        attempt = again.known(Round(LOUD, looker))
    assert sorted(looker.looked_at) == [LOUD.name, QUIET.name]
    assert attempt is not None
    assert attempt.finding == FOUND


def test_other_settings_or_sources_are_looked_at_again(tmp_path: Path) -> None:
    looker = Looker(lambda _: NOTHING)
    with opened(tmp_path, Told()) as rounds:
        rounds.carry_out(rounds_of(looker, QUIET))
        assert rounds.known(Round(QUIET, replace(looker, settings="600 s"))) is None
        changed = replace(QUIET, text=QUIET.text + "\n")
        assert rounds.known(Round(changed, looker)) is None
        assert rounds.known(Round(QUIET, looker)) is not None


def test_what_was_interrupted_is_left_for_the_next_time(tmp_path: Path) -> None:
    def stopped(name: str) -> Finding:
        if name == QUIET.name:
            raise Interrupted
        return FOUND

    looker = Looker(stopped, jobs=1)
    with opened(tmp_path, Told()) as rounds:
        with pytest.raises(Interrupted):
            rounds.carry_out(rounds_of(looker, LOUD, QUIET))
        assert rounds.known(Round(LOUD, looker)) is not None
        assert rounds.known(Round(QUIET, looker)) is None
        assert [copy.name for copy in (tmp_path / "sources").iterdir()] == [SOUND]
    assert not (tmp_path / "sources").exists()


def test_two_at_once_do_not_take_each_others_copies_away(tmp_path: Path) -> None:
    with opened(tmp_path, Told()) as rounds:
        with pytest.raises(AtWork, match=str(tmp_path)), opened(tmp_path, Told()):
            pass
        assert rounds.sound.is_dir()


def test_half_a_file_is_nothing_known(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    attempts.put(Attempt(bug="b", way=Way.CAMPAIGN, finding=FOUND, sources="1", settings="s"))
    assert attempts.get("b", Way.CAMPAIGN) is not None
    file = tmp_path / "campaign" / "b.json"
    file.write_text(file.read_text()[:40])
    assert attempts.get("b", Way.CAMPAIGN) is None


def test_a_longer_search_is_for_what_a_shorter_one_has_not_found(tmp_path: Path) -> None:
    def attempt(finding: Finding) -> Attempt:
        return Attempt(
            bug="b", way=Way.SIMULATOR, finding=finding, sources="1", settings=minute.settings
        )

    minute, hour, second = (Simulator(Children(), tmp_path, s, 1) for s in (60, 3600, 1.5))
    assert all(search.has_done(attempt(FOUND)) for search in (second, minute, hour))
    assert second.has_done(attempt(NOTHING))
    assert minute.has_done(attempt(NOTHING))
    assert not hour.has_done(attempt(NOTHING))


DIES_IN_ITS_SECOND_SEED = """
import json, pathlib, sys
summary = {"seeds": 1, "steps": 9, "processor_s": 0.1, "failures": []}
pathlib.Path(sys.argv[sys.argv.index("--summary") + 1]).write_text(json.dumps(summary))
raise ValueError("a word that nobody expected")
"""


def test_a_search_that_dies_has_not_found_nothing(tmp_path: Path) -> None:
    (tmp_path / "simulation").mkdir()
    (tmp_path / "simulation" / "__main__.py").write_text(DIES_IN_ITS_SECOND_SEED)
    finding = Simulator(Children(), tmp_path, 1, 1).look(tmp_path, tmp_path / "place")
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "status 1: " in finding.why
    assert "a word that nobody expected" in finding.why


@pytest.mark.parametrize(
    ("sound", "quiet", "status", "words"),
    [
        (NOTHING, FOUND, ExitStatus.HELD, ""),
        (NOTHING, NOTHING, ExitStatus.INCONCLUSIVE, f"found by nobody: {QUIET.name}"),
        (NOTHING, NOTHING_CERTAIN, ExitStatus.INCONCLUSIVE, f"found by nobody: {QUIET.name}"),
        (FOUND, FOUND, ExitStatus.BROKEN, "none was looked for"),
        (NOTHING_CERTAIN, FOUND, ExitStatus.INCONCLUSIVE, "none was looked for"),
    ],
)
def test_the_sound_broker_decides_whether_the_others_are_looked_at(
    tmp_path: Path, sound: Finding, quiet: Finding, status: ExitStatus, words: str
) -> None:
    said = {SOUND: sound, LOUD.name: FOUND, QUIET.name: quiet}
    looker, told = Looker(said.__getitem__), io.StringIO()
    with (
        Display(Console(file=io.StringIO())) as display,
        opened(tmp_path, display) as rounds,
    ):
        came = carry_out([LOUD, QUIET], [looker], rounds, display, told.write)
    assert came is status
    assert words in told.getvalue()
    assert (looker.looked_at == [SOUND]) == ("none was" in words)


def test_campaigns_begin_with_what_the_simulator_finds_soonest(tmp_path: Path) -> None:
    late = BUGS["min-isr-not-checked"]
    said = {LOUD.name: FOUND, late.name: replace(FOUND, seconds=50.0), QUIET.name: NOTHING}
    simulator = Looker(lambda name: said.get(name, NOTHING), jobs=1)
    campaigns = Looker(lambda _: NOTHING, way=Way.CAMPAIGN, jobs=1)
    with (
        Display(Console(file=io.StringIO())) as display,
        opened(tmp_path, display) as rounds,
    ):
        carry_out([QUIET, late, LOUD], [simulator, campaigns], rounds, display, str)
    assert campaigns.looked_at == [SOUND, LOUD.name, late.name, QUIET.name]


def test_a_bug_that_does_not_fit_is_told_before_anything_is_looked_at(tmp_path: Path) -> None:
    stale = replace(LOUD, text=LOUD.text.replace("event.acks != -1", "event.acks != -2"))
    looker, told = Looker(lambda _: NOTHING), io.StringIO()
    with (
        Display(Console(file=io.StringIO())) as display,
        opened(tmp_path, display) as rounds,
    ):
        came = carry_out([QUIET, stale], [looker], rounds, display, told.write)
    assert came is ExitStatus.INCONCLUSIVE
    assert LOUD.name in told.getvalue()
    assert not looker.looked_at


@dataclass
class Known:
    """By bug (or ``SOUND``) and way; of old sources where the attempt says so."""

    findings: dict[tuple[str, Way], Finding]
    old: tuple[str, ...] = ()

    def attempt(self, bug: Bug | None, way: Way) -> Attempt | None:
        name = SOUND if bug is None else bug.name
        finding = self.findings.get((name, way))
        if finding is None:
            return None
        return Attempt(bug=name, way=way, finding=finding, sources=name, settings="s")

    def is_current(self, attempt: Attempt, bug: Bug | None) -> bool:
        assert attempt.sources == (SOUND if bug is None else bug.name)
        return attempt.bug not in self.old


def row(page: str, bug: Bug) -> list[str]:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| `{bug.name}` |"))
    return [part.strip() for part in line.strip("|").split(" | ")]


def test_the_page_says_what_found_each_bug() -> None:
    other = BUGS["offsets-not-loaded"]
    known = Known(
        {
            (SOUND, Way.SIMULATOR): NOTHING,
            (LOUD.name, Way.SIMULATOR): FOUND,
            (LOUD.name, Way.CAMPAIGN): NOTHING_CERTAIN,
            (QUIET.name, Way.SIMULATOR): NOTHING,
            (other.name, Way.SIMULATOR): NOTHING,
        },
        old=(QUIET.name,),
    )
    page = table.page(BUGS, known, DAY)
    assert "- simulator: everything held (90 seeds, 60 s)" in page
    assert "- campaign: not run" in page
    assert "The simulator found 1 of 3 broken brokers, half of these within 2 s.\n" in page
    assert "| producers | 2 | 1 |\n" in page
    assert row(page, LOUD)[-2:] == [
        "**AckedIsCommitted**, seed 7, 8 seeds, 2 s",
        "inconclusive: it\\|broke &lt;off>",
    ]
    assert row(page, QUIET)[-2:] == ["not found†: 90 seeds, 60 s", "not run"]
    assert "- groups: `offsets-not-loaded`\n" in page
    assert f"- replica logs: `{QUIET.name}`\n" in page
    assert table.missed([LOUD, QUIET, other, BUGS["stop-not-fenced"]], known) == [other]


@pytest.mark.parametrize("finding", [FOUND, NOTHING_CERTAIN])
def test_a_find_in_the_sound_broker_makes_the_page_worthless(finding: Finding) -> None:
    page = table.page(BUGS, Known({(SOUND, Way.CAMPAIGN): finding}), DAY)
    assert "what this way has found below is worth nothing" in page.replace("whatever", "what")


def test_page_says_that_the_catalogue_has_changed_since() -> None:
    known = Known({})
    page = table.page(BUGS, known, DAY)
    assert f"written on 2026-11-27 for the catalogue `{digest(BUGS)}`" in page
    assert f"0 were looked for, and {len(BUGS)} were not" in page
    assert table.compared(page, BUGS) == page
    fewer = {name: bug for name, bug in BUGS.items() if bug is not LOUD}
    changed = table.compared(page, fewer)
    assert "The catalogue has changed since then" in changed
    assert table.compared(changed, fewer) == changed
    assert table.compared(changed, BUGS) == page
