"""A session examines what is not known yet, continues after an interruption, and writes a page."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.subprocesses import ChildProcesses, Interrupted
from tools.mutation import page
from tools.mutation.display import Display
from tools.mutation.mutants import Mutant, catalogue, digest, drawn
from tools.mutation.results import SOUND, Finding, Method, Outcome, Result, Store
from tools.mutation.session import Session, SessionRunning, opened
from tools.mutation.simulator import Simulator
from tools.mutation.sources import SUITES

ALL = catalogue()
DAY = date(2026, 11, 27)
LOUD, QUIET = ALL["acks-all-answered-at-append"], ALL["fsync-skipped"]
OTHER = ALL["offsets-not-loaded"]
FOUND = Finding(
    outcome=Outcome.FOUND,
    by="Produce/acknowledged-before-commit",
    where="seed 7",
    examined="8 seeds",
    seconds=2.4,
)
NOTHING = Finding(outcome=Outcome.NOT_FOUND, examined="90 seeds", steps=9, seconds=60.2)
NOT_RUN = ["not run"] * len(SUITES)
"""The cells of the suites."""
UNCERTAIN = Finding(outcome=Outcome.INCONCLUSIVE, why="it|broke <off>\n")


@dataclass
class Scripted:
    """A detector that gives a scripted finding for each broker, which it knows by its place."""

    findings: Callable[[str], Finding]
    settings: str = "60 s"
    method: Method = Method.SIMULATOR
    jobs: int = 2
    examined: list[str] = field(default_factory=list)

    def is_final(self, result: Result) -> bool:
        return result.settings == self.settings

    def examine(self, mutant: Mutant | None, sources: Path, place: Path) -> Finding:
        assert (sources / "ackproof" / "broker" / "replication" / "leader.py").is_file()
        assert place.name == (SOUND if mutant is None else mutant.name)
        self.examined.append(place.name)
        return self.findings(place.name)

    def confirm(self, mutant: Mutant, finding: Finding, place: Path) -> Finding:  # noqa: ARG002
        return finding


@contextmanager
def session_in(directory: Path) -> Iterator[Session]:
    console = Console(file=io.StringIO())
    with Display(console) as display, opened(directory, display) as session:
        yield session


def carried_out(
    directory: Path, mutants: Sequence[Mutant], *detectors: Scripted
) -> tuple[ExitStatus, str]:
    report = io.StringIO()
    with session_in(directory) as session:
        status = session.carry_out(mutants, detectors, report.write)
    return status, report.getvalue()


def test_known_result_is_not_examined_again(tmp_path: Path) -> None:
    detector = Scripted(lambda name: FOUND if name == LOUD.name else NOTHING)
    with session_in(tmp_path) as session:
        session.examine([LOUD], detector)
    with session_in(tmp_path) as again:
        again.examine([LOUD, QUIET], detector)
        result = again.known(LOUD, detector)
    assert sorted(detector.examined) == [LOUD.name, QUIET.name]
    assert result is not None
    assert result.finding == FOUND


def test_other_settings_or_patch_are_examined_again(tmp_path: Path) -> None:
    detector = Scripted(lambda _: NOTHING)
    with session_in(tmp_path) as session:
        session.examine([QUIET], detector)
        assert session.known(QUIET, replace(detector, settings="600 s")) is None
        assert session.known(replace(QUIET, text=QUIET.text + "\n"), detector) is None
        assert session.known(QUIET, detector) is not None


def test_interrupted_examination_is_left_for_the_next_session(tmp_path: Path) -> None:
    def interrupted(name: str) -> Finding:
        if name == QUIET.name:
            raise Interrupted
        return FOUND

    detector = Scripted(interrupted, jobs=1)
    with session_in(tmp_path) as session:
        with pytest.raises(Interrupted):
            session.examine([LOUD, QUIET], detector)
        assert session.known(LOUD, detector) is not None
        assert session.known(QUIET, detector) is None
        assert [copy.name for copy in (tmp_path / "sources").iterdir()] == [SOUND]
    assert not (tmp_path / "sources").exists()


def test_second_session_in_a_directory_is_refused(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        with pytest.raises(SessionRunning, match=str(tmp_path)), session_in(tmp_path):
            pass
        assert session.sound.is_dir()


def test_damaged_result_file_counts_as_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(Result(mutant="b", method=Method.CAMPAIGN, finding=FOUND, sources="1", settings="s"))
    assert store.get("b", Method.CAMPAIGN) is not None
    file = tmp_path / "campaign" / "b.json"
    file.write_text(file.read_text()[:40])
    assert store.get("b", Method.CAMPAIGN) is None


def simulator(directory: Path, seconds: float, sound_steps: int = 10) -> Simulator:
    return Simulator(ChildProcesses(), directory, seconds, sound_steps, 1)


def test_longer_search_repeats_only_a_shorter_one_without_find(tmp_path: Path) -> None:
    minute, hour, second = (simulator(tmp_path, s) for s in (60, 3600, 1.5))

    def result(finding: Finding, mutant: str = "b") -> Result:
        return Result(
            mutant=mutant,
            method=Method.SIMULATOR,
            finding=finding,
            sources="1",
            settings=minute.settings,
        )

    assert all(search.is_final(result(FOUND)) for search in (second, minute, hour))
    assert second.is_final(result(NOTHING))
    assert minute.is_final(result(NOTHING))
    assert not hour.is_final(result(NOTHING))
    assert not minute.is_final(result(NOTHING, SOUND)), "9 of 10 steps"
    assert simulator(tmp_path, 60, 9).is_final(result(NOTHING, SOUND))


SCRIPTED_SEARCH = """
import json, pathlib, sys
def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default
seeds, first = int(option("--seeds", 1)), int(option("--first", 0))
summary = {"seeds": seeds, "steps": 100 * seeds, "processor_s": 0.5, "failures": []}
if first >= FAILS_FROM:
    summary["failures"] = [{"seed": first, "invariant": "LogsMeet", "what": "1 and 2"}]
pathlib.Path(option("--summary", "")).write_text(json.dumps(summary))
DIES
"""


def scripted_simulation(root: Path, fails_from: int = 10_000, dies: str = "") -> Path:
    (root / "simulation").mkdir()
    text = SCRIPTED_SEARCH.replace("FAILS_FROM", str(fails_from)).replace("DIES", dies)
    (root / "simulation" / "__main__.py").write_text(text)
    return root


def test_sound_broker_is_searched_until_there_are_enough_steps(tmp_path: Path) -> None:
    root = scripted_simulation(tmp_path)
    finding = simulator(root, 1, sound_steps=3000).examine(None, root, tmp_path / "place")
    assert (finding.outcome, finding.steps) == (Outcome.NOT_FOUND, 3000)
    assert finding.examined == "30 seeds, 3,000 steps"
    assert finding.seconds == 1.5


def test_fault_of_the_sound_broker_ends_its_search(tmp_path: Path) -> None:
    root = scripted_simulation(tmp_path, fails_from=20)
    finding = simulator(root, 1, sound_steps=100_000).examine(None, root, tmp_path / "place")
    assert (finding.outcome, finding.where) == (Outcome.FOUND, "seed 20")


def test_search_has_the_scenario_and_cluster_of_the_mutant(tmp_path: Path) -> None:
    root = scripted_simulation(tmp_path, dies="print(*sys.argv)")
    mutant = ALL["claim-by-an-old-reading"]
    simulator(root, 1).examine(mutant, root, tmp_path / "place")
    output = (tmp_path / "place" / "output").read_text()
    assert "--coordination leader-fenced --scenario slow claimant --seconds 1" in output


def test_search_that_dies_is_inconclusive(tmp_path: Path) -> None:
    root = scripted_simulation(tmp_path, dies="raise ValueError('an unexpected word')")
    finding = simulator(root, 1).examine(QUIET, root, tmp_path / "place")
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "status 1: " in finding.why
    assert "an unexpected word" in finding.why


def test_find_counts_only_if_the_sound_broker_holds_in_that_seed(tmp_path: Path) -> None:
    search = simulator(scripted_simulation(tmp_path, fails_from=3), 1)
    found, other = (replace(FOUND, where=f"seed {seed}") for seed in (1, 3))
    assert search.confirm(LOUD, found, tmp_path / "first") == found
    (tmp_path / "simulation" / "__main__.py").unlink()
    assert search.confirm(LOUD, found, tmp_path / "again") == found, "it is run once a seed"
    assert search.confirm(LOUD, other, tmp_path / "other").outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("sound", "quiet", "status", "words"),
    [
        (NOTHING, FOUND, ExitStatus.HELD, ""),
        (NOTHING, NOTHING, ExitStatus.INCONCLUSIVE, f"not found: {QUIET.name}"),
        (NOTHING, UNCERTAIN, ExitStatus.INCONCLUSIVE, f"not found: {QUIET.name}"),
        (FOUND, FOUND, ExitStatus.BROKEN, "no broken broker was examined"),
        (UNCERTAIN, FOUND, ExitStatus.INCONCLUSIVE, "no broken broker was examined"),
    ],
)
def test_mutants_are_examined_only_if_the_sound_broker_holds(
    tmp_path: Path, sound: Finding, quiet: Finding, status: ExitStatus, words: str
) -> None:
    findings = {SOUND: sound, LOUD.name: FOUND, QUIET.name: quiet}
    detector = Scripted(findings.__getitem__)
    came, report = carried_out(tmp_path, [LOUD, QUIET], detector)
    assert came is status
    assert words in report
    assert (detector.examined == [SOUND]) == ("no broken" in words)


@pytest.mark.long
def test_campaigns_take_the_mutants_in_random_order(tmp_path: Path) -> None:
    chosen = [QUIET, OTHER, LOUD]
    campaigns = Scripted(lambda _: NOTHING, method=Method.CAMPAIGN, jobs=1)
    carried_out(tmp_path, chosen, Scripted(lambda _: NOTHING), campaigns)
    assert campaigns.examined == [SOUND, *(mutant.name for mutant in drawn(chosen))]


def test_random_order_goes_through_the_whole_catalogue() -> None:
    order = drawn(ALL.values())
    assert sorted(order, key=lambda mutant: mutant.name) != order
    assert {mutant.name for mutant in order} == set(ALL)
    assert len({mutant.component for mutant in order[:20]}) >= 6


@pytest.mark.long
def test_suites_begin_with_mutants_that_the_simulator_misses(tmp_path: Path) -> None:
    search = Scripted(lambda name: FOUND if name == LOUD.name else NOTHING, jobs=1)
    suite = Scripted(lambda _: NOTHING, method=Method.CONFORMANCE, jobs=1)
    carried_out(tmp_path, [LOUD, QUIET], search, suite)
    assert suite.examined == [SOUND, QUIET.name, LOUD.name]


def test_stale_patch_is_reported_before_any_examination(tmp_path: Path) -> None:
    stale = replace(LOUD, text=LOUD.text.replace("event.acks != -1", "event.acks != -2"))
    detector = Scripted(lambda _: NOTHING)
    status, report = carried_out(tmp_path, [QUIET, stale], detector)
    assert status is ExitStatus.INCONCLUSIVE
    assert LOUD.name in report
    assert not detector.examined


@dataclass
class Known:
    """Results by mutant (or ``SOUND``) and method; ``old`` names those of older sources."""

    findings: dict[tuple[str, Method], Finding]
    old: tuple[str, ...] = ()

    def result(self, mutant: Mutant | None, method: Method) -> Result | None:
        name = SOUND if mutant is None else mutant.name
        finding = self.findings.get((name, method))
        if finding is None:
            return None
        return Result(mutant=name, method=method, finding=finding, sources=name, settings="s")

    def is_current(self, result: Result, mutant: Mutant | None) -> bool:
        assert result.sources == (SOUND if mutant is None else mutant.name)
        return result.mutant not in self.old


def cells(text: str, first: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [part.strip() for part in line.strip("|").split(" | ")]


def test_page_has_the_result_of_each_mutant() -> None:
    known = Known(
        {
            (SOUND, Method.SIMULATOR): NOTHING,
            (LOUD.name, Method.SIMULATOR): FOUND,
            (LOUD.name, Method.CAMPAIGN): UNCERTAIN,
            (QUIET.name, Method.SIMULATOR): NOTHING,
            (OTHER.name, Method.SIMULATOR): replace(FOUND, seconds=9.0),
            (OTHER.name, Method.CAMPAIGN): replace(FOUND, by="commits-kept", where="seed 1"),
        },
        old=(QUIET.name,),
    )
    text = page.page(ALL, known, DAY, "abc")
    assert cells(text, "sound broker")[1:] == ["held: 90 seeds, 60 s", *NOT_RUN, "not run"]
    assert cells(text, "found")[1:] == ["2/3 (66 %)", *NOT_RUN, "not run"]
    assert "Found by at least one method: 2 of 3 examined mutants" in text
    assert cells(text, "time to find: median, longest")[1] == "6 s, 9 s"
    assert cells(text, "storage")[3:] == ["0/1", *[""] * len(SUITES), ""]
    left = "Not found by any method (*: not expected of the simulator)"
    assert f"{left}: `{QUIET.name}`.\n\n## Results" in text
    assert cells(text, f"`{LOUD.name}`")[1:] == [
        "`Produce/acknowledged-before-commit` (7)",
        "inconclusive (campaigns): it\\|broke &lt;off>",
    ]
    assert cells(text, f"`{QUIET.name}`")[1:] == ["no†", ""]
    assert cells(text, f"`{OTHER.name}`")[2] == "`commits-kept` (campaign, seed 1)"
    assert page.missed([LOUD, QUIET, OTHER], known) == []
    assert page.missed([QUIET], replace(known, old=())) == [QUIET]


def test_page_counts_campaigns_of_a_random_sample_alone() -> None:
    first, second, third, _, fifth, *_ = drawn(ALL.values())
    findings = {
        first.name: replace(FOUND, by=first.guarantee or ""),
        second.name: UNCERTAIN,
        third.name: replace(FOUND, by="another-guarantee"),
        fifth.name: replace(FOUND, where="expected of it"),
    }
    known = Known({(name, Method.CAMPAIGN): found for name, found in findings.items()})
    text = page.page(ALL, known, DAY, "abc")
    assert cells(text, f"examined, of {len(ALL)} mutants")[-1] == "3"
    assert cells(text, "found")[-1] == "2/3 (66 %, 9 to 99 %)"
    assert cells(text, "expected guarantee reported")[-1] == "1"
    assert cells(text, first.component)[-1].endswith(
        f"/{sum(one.component == first.component for one in (first, second, third))}"
    )
    assert page.overview(text).splitlines() == [
        "| [the bundled broker](docs/detection.md) | simulator | not run |",
        "| | campaigns, on a random sample of its mutants | 2 of 3 (9 to 99 %) |",
    ]
    assert "expected of it" in cells(text, f"`{fifth.name}`")[2]
    assert f"## Misses of campaigns\n\n- `{second.name}`: " in text
    assert text.count("\n- `") == 1


def test_reasons_are_of_mutants_and_end_as_sentences() -> None:
    assert set(page.reasons()) <= set(ALL)
    assert all(reason.strip().endswith(".") for reason in page.reasons().values())


@pytest.mark.parametrize("finding", [FOUND, UNCERTAIN])
def test_page_says_that_no_find_counts_if_the_sound_broker_fails(finding: Finding) -> None:
    text = page.page(ALL, Known({(SOUND, Method.CAMPAIGN): finding}), DAY, "abc")
    assert cells(text, "sound broker")[-1].endswith("no find counts")


def test_page_says_whether_catalogue_or_sources_have_changed() -> None:
    text = page.page(ALL, Known({}), DAY, "abc")
    assert f"Measured on 2026-11-27: catalogue `{digest(ALL)}`, sources `abc`.\n" in text
    assert page.compared(text, ALL, "abc") == text
    fewer = {name: mutant for name, mutant in ALL.items() if mutant is not LOUD}
    changed = page.compared(text, fewer, "def")
    assert "sources `abc`. **The catalogue has changed since then.** **The broker" in changed
    assert page.compared(changed, fewer, "def") == changed
    assert page.compared(changed, ALL, "abc") == text
