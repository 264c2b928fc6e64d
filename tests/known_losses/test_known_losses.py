"""Known losses: what was run is counted; what was not says so; what tells nothing is neither."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ackproof.checkers.context.final_reads import LISTED
from ackproof.checkers.context.pace import WAITED
from ackproof.checkers.verdict import CampaignResult, Cause, RunResult, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.counterfactuals.answer import DOCUMENT, Answer, write
from ackproof.harness.counterfactuals.failures import Failure
from ackproof.harness.counterfactuals.odds import Odds, compared
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.known_losses import (
    ANSWERS,
    FINDINGS,
    LossAnswer,
    LossCounts,
    LossFinding,
    LossOutcome,
    LossRuns,
    LossSystem,
    overview,
    page,
    read,
    words,
)
from ackproof.harness.report import verdict
from ackproof.harness.subprocesses import read_findings, write_findings
from tests.support.builders.results import cell_result

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "campaigns" / "known-losses" / "stories.yaml"
OLD, NEW = LossSystem(system="kafka:0.10.2.2"), LossSystem(system="kafka:0.11.0.3")
MISREAD: Mapping[str, Any] = {"called": "where other things are lost", "shows": ["duplicated"]}
OTHER = LossSystem(system=NEW.system, called=MISREAD["called"], shows=("duplicated",))


@pytest.fixture
def runs(tmp_path: Path) -> LossRuns:
    """One story on two releases, and no results."""
    (tmp_path / "c.yaml").write_text("name: c\n", encoding="utf-8")
    written = {
        "told": {
            "title": "records vanish",
            "tells": "it is lost",
            "sources": {"KIP-1": "https://example.org/1"},
            "campaign": "c.yaml",
            "shows": ["lost"],
            "has": [{"system": OLD.system}],
            "mended": [{"system": NEW.system}, {"system": NEW.system, **MISREAD}],
        }
    }
    file = tmp_path / "stories.yaml"
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    known = read(file)
    return LossRuns(stories=known, campaigns=tmp_path, results=tmp_path / "results")


def was_run(
    runs: LossRuns,
    side: LossSystem,
    seed: int,
    lost: int,
    found: Verdict,
    why: str = "",
    findings: tuple[str, ...] = (),
) -> Path:
    """The results of a run, as checking leaves them."""
    place = runs.of("told", side) / f"seed-{seed}"
    place.mkdir(parents=True)
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False, cluster={})
    cause = Cause(
        run=1, cell="c", anomaly="lost", topic="c", partition=0, number=1,
        kind="deposed-leader", sentence=why, records=lost, promised=lost,
        first_offset=1, last_offset=2, first_time=1, last_time=2, leaders=(1,), epochs=(1,),
        next_leader=2, next_epoch=2, next_offset=0, faults=(),
    )  # fmt: skip
    result = CampaignResult(
        verdict=found,
        cells=(cell_result(verdict=found, lost=lost, reordered=5),),
        anomalies={"lost": lost, "reordered": 5},
        findings=findings,
        runs=(run,),
        causes=(cause,) if why else (),
    )
    verdict.write(place, verdict.to_document({"name": "c", "seed": seed}, result))
    return place


def test_runs_are_counted_by_their_outcome(runs: LossRuns) -> None:
    assert runs.tally("told", OLD) == LossCounts()
    was_run(runs, OLD, 1, 0, Verdict.PASS)
    was_run(runs, OLD, 10, 7, Verdict.FAIL, "broker-2 led without them")
    was_run(runs, OLD, 2, 3, Verdict.INCONCLUSIVE, "broker-1 cut them")
    was_run(runs, OLD, 3, 0, Verdict.INCONCLUSIVE)
    was_run(runs, NEW, 1, 0, Verdict.NOT_GUARANTEED)
    (runs.of("told", OLD) / "seed-4").mkdir()  # of one that was killed
    found = runs.tally("told", OLD)
    assert (found.runs, found.seen, found.inconclusive) == (3, 2, 1)
    assert found.first is not None
    assert (found.first.seed, found.first.records) == (2, 3)
    assert runs.tally("told", NEW) == LossCounts(runs=1)


def test_failure_for_another_reason_does_not_count_unchecked_runs(runs: LossRuns) -> None:
    was_run(runs, NEW, 1, 0, Verdict.FAIL, findings=("run 1: t-0: no final read",))
    was_run(runs, NEW, 2, 0, Verdict.FAIL)
    was_run(runs, NEW, 3, 0, Verdict.PASS, findings=(f"run 1: {WAITED} for most of the time",))
    was_run(runs, NEW, 4, 0, Verdict.PASS, findings=(f"run 1: t-0: {LISTED} 7, but ended at 8",))
    assert runs.tally("told", NEW) == LossCounts(runs=3, inconclusive=1)


def test_loss_with_another_possible_cause_is_not_counted(runs: LossRuns) -> None:
    """Test the same result on a side where a loss does not indicate the defect."""
    for side in (NEW, OTHER):
        was_run(runs, side, 1, 7, Verdict.FAIL)
    assert (runs.tally("told", NEW).seen, runs.tally("told", OTHER).seen) == (1, 0)


def test_side_may_choose_its_metadata_quorum(tmp_path: Path) -> None:
    shipped = read(SHIPPED)
    runs = LossRuns(stories=shipped, campaigns=SHIPPED.parent, results=tmp_path)
    runs.check(["kip-966"])
    planned = [(side.name, once) for _, side, once in runs.planned(["kip-966"], 1)]
    by_default, kraft = planned[:2]
    assert (by_default[0], kraft[0]) == ("kafka:3.9.1", "kafka:3.9.1, isolated-kraft")
    assert [one.metadata_quorum for _, one in planned] == [None, "isolated-kraft", None]
    assert by_default[1].directory.parent != kraft[1].directory.parent


def test_runs_of_another_campaign_are_not_counted(runs: LossRuns) -> None:
    was_run(runs, OLD, 1, 7, Verdict.FAIL)
    (runs.campaigns / "c.yaml").write_text("name: c\nruns: 2\n", encoding="utf-8")
    assert runs.tally("told", OLD) == LossCounts()


def test_comments_make_no_other_campaign(runs: LossRuns) -> None:
    was_run(runs, OLD, 1, 7, Verdict.FAIL)
    (runs.campaigns / "c.yaml").write_text("# as before\nname: c\n", encoding="utf-8")
    assert runs.tally("told", OLD).seen == 1


def test_findings_of_another_machine_add_up(runs: LossRuns, tmp_path: Path) -> None:
    """Test that results may be deleted, and that no finding is run again."""
    was_run(runs, OLD, 1, 7, Verdict.FAIL)
    was_run(runs, NEW, 1, 0, Verdict.PASS)
    file = tmp_path / "kept.json"
    assert read_findings(file, FINDINGS) == {}
    write_findings(file, runs.all_findings, FINDINGS)
    there = replace(runs, results=tmp_path / "elsewhere", before=read_findings(file, FINDINGS))
    was_run(there, OLD, 2, 0, Verdict.PASS)
    assert words(there.tally("told", OLD)) == "**seen in 1 of 2**"
    assert words(there.tally("told", NEW)) == "not seen in 1"
    assert [(side, one.seed) for _, side, one in there.planned(["told"], 2)] == [
        (OTHER, 1),
        (NEW, 2),
        (OTHER, 2),
    ]
    (runs.campaigns / "c.yaml").write_text("name: c\nruns: 2\n", encoding="utf-8")
    assert there.all_findings == {}
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ResultsDirectoryError, match="no findings"):
        read_findings(file, FINDINGS)


def test_unknown_number_of_records_is_named_on_the_page(runs: LossRuns) -> None:
    seen = LossFinding(seed=3, outcome=LossOutcome.SEEN)
    before = {runs.place("told", OLD): [seen]}
    text = page(replace(runs, before=before))
    assert "**seen in 1 of 1** (2 to 100 %; seed 3: unknown records)" in text


def test_all_are_run_once_before_any_is_run_twice(runs: LossRuns) -> None:
    planned = [(name, side, one.seed) for name, side, one in runs.planned(["told"], 2)]
    assert planned == [("told", side, seed) for seed in (1, 2) for side in (OLD, NEW, OTHER)]
    places = [one.directory for _, _, one in runs.planned(["told"], 2)]
    assert len(set(places)) == 6


def was_answered(place: Path, guarantee: str = "no-acked-record-lost") -> None:
    """Write the answer of ``ackproof why`` for a run."""
    base = Odds(name="as it was", failed=6, runs=6, inconclusive=0)
    found = Answer(
        campaign="c",
        origin="As recorded.",
        failure=Failure(run=1, cell="c", guarantee=guarantee),
        base=base,
        changes=compared(
            base,
            [
                Odds(name="acks=all", failed=2, runs=2, inconclusive=0),
                Odds(name="client=java, without retries", failed=0, runs=6, inconclusive=1),
                Odds(name="release kafka:4.4.0", failed=0, runs=0, inconclusive=3),
                Odds(name="without fault 1, kill on all", failed=0, runs=6, inconclusive=0),
            ],
        ),
        left=(),
    )
    write(found, place)


PREVENTED = (
    "*What prevents it* (kafka:0.10.2.2, seed 4): the failure came in 6 of 6 runs as it was. It "
    "came less often with client=java, without retries (0 of 6, the known remedy). No help is "
    "shown of acks=all (2 of 2).\n"
)


def test_page_names_the_changes_that_prevent_a_loss(runs: LossRuns) -> None:
    was_answered(was_run(runs, OLD, 4, 7, Verdict.FAIL))
    was_answered(was_run(runs, NEW, 4, 0, Verdict.PASS))
    (told,) = runs.stories.values()
    stories = {"told": told.model_copy(update={"remedies": ("client=java",)})}
    assert page(replace(runs, stories=stories)).endswith(f"it is lost\n\n{PREVENTED}")
    assert "the known remedy" not in page(runs)


def test_changes_with_too_few_runs_are_not_called_useless(runs: LossRuns) -> None:
    base = Odds(name="as it was", failed=1, runs=1, inconclusive=0)
    changes = compared(base, [Odds(name="acks=all", failed=0, runs=1, inconclusive=0)])
    one = LossAnswer(
        seed=4, guarantee="no-acked-record-lost", as_it_was=base, changes=list(changes)
    )
    text = page(replace(runs, answered={runs.place("told", OLD): [one]}))
    assert text.endswith("1 of 1 runs as it was. Too few runs yet with acks=all (0 of 1).\n")


def test_answer_about_another_guarantee_is_not_on_the_page(runs: LossRuns) -> None:
    was_answered(was_run(runs, OLD, 4, 7, Verdict.FAIL), "no-duplicates")
    assert "What prevents it was not measured." in page(runs)


def test_answers_from_another_machine_are_kept(runs: LossRuns, tmp_path: Path) -> None:
    place = was_run(runs, OLD, 4, 7, Verdict.FAIL)
    was_answered(place)
    file = tmp_path / "kept-why.json"
    write_findings(file, runs.all_answers, ANSWERS)
    there = replace(runs, results=tmp_path / "no", answered=read_findings(file, ANSWERS))
    assert there.answers("told", OLD) == runs.answers("told", OLD)
    assert "client=java, without retries (0 of 6)" in page(there)
    (place / DOCUMENT).write_text('{"version": 1}', encoding="utf-8")
    with pytest.raises(ResultsDirectoryError, match=r"why\.json: no answer of ackproof why"):
        runs.answers("told", OLD)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (LossCounts(), "not run"),
        (LossCounts(runs=3), "not seen in 3"),
        (LossCounts(runs=3, seen=1), "**seen in 1 of 3**"),
        (LossCounts(runs=3, inconclusive=2), "not seen in 3, 2 inconclusive"),
        (LossCounts(inconclusive=2), "2 inconclusive"),
    ],
)
def test_a_side_in_words(found: LossCounts, said: str) -> None:
    assert words(found) == said


def test_page_has_a_row_for_each_defect_with_its_first_sighting(runs: LossRuns) -> None:
    was_run(runs, OLD, 4, 7, Verdict.FAIL)
    text = page(runs)
    assert (
        "| [told](#told) | [KIP-1](https://example.org/1) | kafka:0.10.2.2: "
        "**seen in 1 of 1** (2 to 100 %; seed 4: 7 records) "
        "| kafka:0.11.0.3: not run<br>where other things are lost: not run | `lost` | `c.yaml` |"
        in text
    )
    assert text.count("kafka:0.11.0.3") == 1


def test_overview_has_the_shares_and_the_inconclusive_runs_of_releases(runs: LossRuns) -> None:
    (told,) = runs.stories.values()
    bundled = LossSystem(system="bundled", called="bundled, generation 0.10")
    stories = {"told": told.model_copy(update={"has": (OLD, bundled)})}
    counts = {
        OLD.name: LossCounts(runs=3, seen=1, inconclusive=1),
        NEW.name: LossCounts(inconclusive=2),
        OTHER.name: LossCounts(),
    }
    assert overview(stories, lambda _, side: counts[side.name]).splitlines()[2:] == [
        "| [KIP-1](docs/known-losses.md#told): records vanish | 0.10.2.2 (1 of 3, 1 inconclusive) "
        "| 0.11.0.3 (2 inconclusive)<br>where other things are lost (not run) |"
    ]
    stories = {"told": told.model_copy(update={"mended": ()})}
    assert "| no release is fixed |" in overview(stories, lambda *_: LossCounts())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shows": ["lots"]}, "unknown anomaly 'lots'; did you mean lost?"),
        ({"shows": []}, "shows"),
        ({"has": [{"system": "bundled", "shows": ["lots"]}]}, "unknown anomaly 'lots'"),
        ({"has": [{"system": "kafka:0.9"}]}, "Apache Kafka 0.9 is too old"),
        ({"campain": "x"}, "campain"),
    ],
)
def test_stories_that_are_none(tmp_path: Path, changes: Mapping[str, Any], says: str) -> None:
    right = {
        "title": "t",
        "tells": "t", "sources": {"a": "b"}, "campaign": "c", "shows": ["lost"], "has": [],
    }  # fmt: skip
    file = tmp_path / "stories.yaml"
    file.write_text(json.dumps({"told": right | changes}), encoding="utf-8")
    with pytest.raises(ResultsDirectoryError, match=says.replace("?", r"\?")):
        read(file)


@pytest.mark.parametrize("name", list(read(SHIPPED)))
def test_shipped_defects_are_accepted_by_all_their_systems(name: str) -> None:
    shipped = LossRuns(stories=read(SHIPPED), campaigns=SHIPPED.parent, results=Path("nowhere"))
    shipped.check([name])


def test_page_alone_is_made_from_existing_runs(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli, ["known-losses", "kip-967"]).exit_code == 2
    arguments = ["--runs", "0", "--stories", str(SHIPPED), "--results", str(tmp_path)]
    out = tmp_path / "page.md"
    told = CliRunner().invoke(cli, ["known-losses", "kip-966", *arguments, "--out", str(out)])
    assert told.exit_code == 0, told.output
    assert "kip-966: kafka:3.9.1: not run" in told.output
    assert "not run" in out.read_text(encoding="utf-8")
    assert not list(tmp_path.glob("kip-966-*")), "nothing was run"


def test_existing_run_is_not_repeated(runs: LossRuns, tmp_path: Path) -> None:
    campaign = (ROOT / "campaigns" / "quick.yaml").read_text(encoding="utf-8")
    (tmp_path / "c.yaml").write_text(campaign, encoding="utf-8")
    file = tmp_path / "stories.yaml"
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    written["told"] |= {"has": [{"system": "bundled"}], "mended": []}
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    ours = LossRuns(stories=read(file), campaigns=tmp_path, results=runs.results)
    place = was_run(ours, LossSystem(system="bundled"), 1, 7, Verdict.FAIL)
    arguments = ["--runs", "1", "--stories", str(file), "--results", str(runs.results)]
    told = CliRunner().invoke(cli, ["known-losses", *arguments])
    assert told.exit_code == 0, told.output
    assert told.output.splitlines()[0] == "told: bundled: seen in 1 of 1"
    assert not place.with_name("seed-1.output").exists(), "nothing was started"


def test_the_page_that_ships_has_every_story() -> None:
    text = (ROOT / "docs" / "known-losses.md").read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(read(SHIPPED))


def test_page_that_ships_is_that_of_the_findings_that_ship(tmp_path: Path) -> None:
    docs = ROOT / "docs"
    runs = LossRuns(
        stories=read(SHIPPED),
        campaigns=SHIPPED.parent,
        results=tmp_path,
        before=read_findings(docs / "known-losses.json", FINDINGS),
        answered=read_findings(docs / "known-losses-why.json", ANSWERS),
    )
    shipped = (docs / "known-losses.md").read_text(encoding="utf-8")
    assert page(runs) == shipped
