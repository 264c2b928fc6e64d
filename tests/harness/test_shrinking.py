"""From a run that failed to the smallest campaign that fails in the same way: what is tried, what
is remembered, what is kept."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ackproof.checkers.thresholds import Threshold, Unit
from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.schedule import FaultEntry, StoryEntry
from ackproof.harness.campaign.model.workload import GroupSpec
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.validation import check, load
from ackproof.harness.cli import cli
from ackproof.harness.commands.shrink import SearchProgress
from ackproof.harness.directory import create
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.harness.running.deadline import SystemClock
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.shrinking.judge import (
    DIRECTORY,
    Judge,
    NothingToShrink,
    RunLimitReached,
    failures_of,
    first_failed_run,
)
from ackproof.harness.shrinking.recorded import as_recorded
from ackproof.harness.shrinking.reductions import WAYS, Candidate
from ackproof.harness.shrinking.search import Reduction, RunCounts, Search
from ackproof.harness.subprocesses import ChildProcesses, Interrupted
from ackproof.infra.api.interface import InfraError
from ackproof.nemesis import FAULTS
from tests.support.builders.results import cell_result, guarantee, threshold

LOST = "no-acked-record-lost"
MS = 1_000_000


class At(SystemClock):
    """Says the time that it is told."""

    now_ms = 0

    def time_ns(self) -> int:
        return self.now_ms * MS


def recorded(campaign: Campaign, history: Path, struck: Sequence[tuple[int, int, int]]) -> None:
    """A history of faults: number, when it was injected since the faults began, when healed."""
    (planned, *_) = runs_of(campaign)
    clock = At()
    recorder = RunRecorder(history, clock)
    clock.now_ms = 100_000
    recorder.phase("faults", "start")
    for number, begin, end in struck:
        fault = next(one for one in planned.faults if one.fault_id == number)
        for event, time in (("inject", begin), ("injected", begin), ("heal", end)):
            clock.now_ms = 100_000 + time
            recorder.fault(number, FAULTS[fault.fault], event, target=fault.target)
    recorder.close()


def right(campaign: Campaign, directory: Path) -> None:
    """Raises CampaignRefused where its file is not."""
    file = directory / "x.yaml"
    file.write_text(campaign.to_yaml(), encoding="utf-8")
    assert check(file, meant=True).campaign == campaign


def result_of(*broken: Sequence[str], infrastructure_failed: bool = False) -> CampaignResult:
    """Return a result of runs, each with one cell that broke these guarantees."""
    cells = [
        cell_result(
            run=number,
            guarantees=[guarantee(name, held=False) for name in names],
            lost=int(LOST in names),
            verdict=Verdict.FAIL if names else Verdict.PASS,
        )
        for number, names in enumerate(broken, start=1)
    ]
    return result_with(cells, infrastructure_failed=infrastructure_failed)


def result_with(
    cells: Sequence[CellResult], *, infrastructure_failed: bool = False
) -> CampaignResult:
    """Return a result with these cells, each in a run of its own."""
    came = {cell.counts_as for cell in cells}
    worst = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_GUARANTEED)
    return CampaignResult(
        verdict=next(one for one in worst if one in came),
        cells=tuple(cells),
        anomalies={},
        findings=(),
        runs=tuple(
            RunResult(number=n, clock_bound_ns=0, infrastructure_failed=infrastructure_failed)
            for n in range(1, len(cells) + 1)
        ),
    )


def kept(number: int, measure: str = "lost") -> CellResult:
    """A cell that promises nothing, and is to have lost no record; it has lost so many."""
    none_lost = Threshold(
        measure=measure,
        operator="<=",
        limit=0,
        unit=Unit.RECORDS,
        measured=number,
        met=number == 0,
    )
    return cell_result(verdict=Verdict.NOT_GUARANTEED, thresholds=(none_lost,), **{measure: number})


class TestFailures:
    def test_first_failed_run_is_the_first_that_broke_a_guarantee(self) -> None:
        result = result_of((), (LOST, "order"), (LOST,))
        assert first_failed_run(result) == 2
        assert failures_of(result, 2) == {LOST, "order"}
        with pytest.raises(NothingToShrink):
            first_failed_run(result_of((), ()))

    def test_unmet_threshold_is_a_failure_where_no_guarantee_was_broken(self) -> None:
        unmet = cell_result(thresholds=[threshold(met=False), threshold("lost", met=None)])
        result = result_with([cell_result(), replace(unmet, run=2)])
        assert first_failed_run(result) == 2
        assert failures_of(result, 1) == frozenset()
        assert failures_of(result, 2) == {"unavailable.longest <= 10 s"}

    def test_broken_guarantee_comes_before_an_unmet_threshold(self) -> None:
        broken = {"guarantees": (guarantee(LOST, held=False),), "verdict": Verdict.FAIL}
        both = cell_result(thresholds=(threshold(met=False),), run=2, **broken)
        result = result_with([cell_result(thresholds=(threshold(met=False),)), both])
        assert first_failed_run(result) == 2
        assert failures_of(result, 2) == {LOST}

    @pytest.mark.parametrize(
        ("came", "expected", "failures"),
        [
            (Verdict.NOT_GUARANTEED, (Verdict.PASS,), {"verdict pass"}),
            (
                Verdict.PASS,
                (Verdict.FAIL, Verdict.NOT_GUARANTEED),
                {"verdict fail or not-guaranteed"},
            ),
            (Verdict.FAIL, (Verdict.FAIL,), set()),
            (Verdict.PASS, (Verdict.PASS,), set()),
            (Verdict.INCONCLUSIVE, (Verdict.PASS,), set()),
            (Verdict.NOT_GUARANTEED, (), set()),
        ],
    )
    def test_expected_verdict_that_did_not_come_is_a_failure(
        self, came: Verdict, expected: tuple[Verdict, ...], failures: set[str]
    ) -> None:
        result = result_with([cell_result(verdict=came, expected=expected)])
        assert failures_of(result, 1) == failures


class TestAsRecorded:
    def test_each_fault_strikes_when_it_struck(self, campaign: Campaign, tmp_path: Path) -> None:
        campaign = campaign.resolved(seed=7)
        recorded(campaign, tmp_path, [(1, 6_000, 11_000), (2, 30_000, 34_000)])
        found = as_recorded(campaign, 1, tmp_path)
        planned = runs_of(campaign)[0].faults
        assert [entry.at for entry in found.faults] == [(6_000, 6_000), (30_000, 30_000)]
        assert [entry.hold for entry in found.faults] == [(5_000, 5_000), (4_000, 4_000)]
        assert [entry.seed for entry in found.faults] == [fault.seed for fault in planned]
        (run,) = runs_of(found)
        told = [(f.fault, f.target, f.start_ms, f.hold_ms, f.seed) for f in run.faults]
        assert told == [
            (f.fault, f.target, start, hold, f.seed)
            for f, start, hold in zip(planned, (6_000, 30_000), (5_000, 4_000), strict=True)
        ]
        right(found, tmp_path)

    def test_recorded_campaign_omits_faults_that_were_never_injected(
        self, campaign: Campaign, tmp_path: Path
    ) -> None:
        campaign = campaign.resolved(seed=7)
        recorded(campaign, tmp_path, [(2, 30_000, 34_000)])
        (entry,) = as_recorded(campaign, 1, tmp_path).faults
        assert entry.seed == runs_of(campaign)[0].faults[1].seed

    def test_a_story_stays_a_story_with_its_own_draws(
        self, campaign: Campaign, tmp_path: Path
    ) -> None:
        story = StoryEntry(story="crash-loop", topic="acks-all-minisr-2")
        campaign = campaign.model_copy(update={"faults": (story,)}).resolved(seed=7)
        recorded(campaign, tmp_path, [(n, 10_000 * n, 10_000 * n + 3_000) for n in range(1, 6)])
        found = as_recorded(campaign, 1, tmp_path)
        (entry,) = found.faults
        assert isinstance(entry, StoryEntry)
        assert (entry.story, entry.topic, entry.at) == (story.story, story.topic, (10_000, 10_000))
        before, after = (runs_of(one)[0].faults for one in (campaign, found))
        assert [(f.target, f.hold_ms, f.seed) for f in before] == [
            (f.target, f.hold_ms, f.seed) for f in after
        ]

    def test_recorded_campaign_contains_the_cluster_of_its_run(
        self, campaign_file, tmp_path: Path
    ) -> None:
        given = {
            "cluster.brokers": [3, 4],
            "cluster.disks": {"per.broker": 2, "megabytes": 64},
            "cluster.properties": {"replica.lag.time.max.ms": 2000},
            "expect": [{"where": {"brokers": 4}, "verdict": "fail"}],
            "runs": 2,
        }
        campaign = load(campaign_file(given)).resolved(seed=7)
        recorded(campaign, tmp_path / "h", [(1, 6_000, 11_000)])
        found = [as_recorded(campaign, number, tmp_path / "h") for number in (1, 4)]
        made = [runs_of(one)[0].cluster for one in found]
        assert made == [runs_of(campaign)[number - 1].cluster for number in (1, 4)]
        assert [(one.brokers, one.disks.per_broker) for one in made] == [(3, 2), (4, 2)]
        assert [len(one.expect) for one in found] == [0, 1]
        assert all(len(runs_of(one)) == 1 for one in found)
        for one in found:
            right(one, tmp_path)
        with pytest.raises(NothingToShrink, match="no run 5"):
            as_recorded(campaign, 5, tmp_path / "h")


# --- what can be less --------------------------------------------------------------------------


def candidate(campaign: Campaign, *faults: tuple[str, int, int], **changes: object) -> Candidate:
    entries = tuple(
        FaultEntry(fault="kill", target=target).model_copy(
            update={"at": (at, at), "hold": (hold, hold), "seed": 1}
        )
        for target, at, hold in faults
    )
    return Candidate.of(campaign.resolved(seed=1).model_copy(update={"faults": entries, **changes}))


def way(name: str) -> Reduction[Candidate]:
    return next(one for one in WAYS if one.name == name)


def test_candidates_are_campaigns_that_are_right(campaign: Campaign, tmp_path: Path) -> None:
    start = candidate(
        campaign, ("leader(acks-1-minisr-1, any)", 20_000, 8_000), ("one", 60_000, 2_000)
    )
    for one in WAYS:
        for found in one.less(start):
            right(found.campaign, tmp_path)
            assert found != start


def test_time_in_which_nothing_is_on_goes(campaign: Campaign) -> None:
    start = candidate(campaign, ("one", 20_000, 8_000), ("one", 60_000, 2_000), ("one", 61_000, 9))
    closed, lead = way("time between faults").less(start)
    assert [fault.at for fault in closed.campaign.faults] == [
        (3_000, 3_000),
        (16_000, 16_000),
        (17_000, 17_000),
    ]
    assert [fault.at for fault in lead.campaign.faults] == [
        (3_000, 3_000),
        (43_000, 43_000),
        (44_000, 44_000),
    ]


def test_holds_are_halved(campaign: Campaign) -> None:
    start = candidate(campaign, ("one", 0, 8_000), ("one", 0, 900), ("one", 0, 500))
    holds = [[f.hold[0] for f in one.campaign.faults] for one in way("holds").less(start)]
    assert holds == [[4_000, 500, 500], [4_000, 900, 500], [8_000, 500, 500]]


def test_entries_about_cells_that_are_left_out_go_with_them(campaign_file) -> None:
    given = {
        "cells.enable~idempotence": [False, True],
        "cells.exclude": [{"acks": n, "enable.idempotence": True} for n in (0, 1)],
        "cells.name": [
            {
                "where": {"acks": -1, "min.insync.replicas": 2, "enable.idempotence": True},
                "name": "a",
            },
            {"where": {"acks": 1, "min.insync.replicas": 1}, "name": "b"},
        ],
        "expect": [{"where": {"acks": 1}, "verdict": "not-guaranteed"}],
        "faults": [{"fault": "kill", "target": "leader(a, any)"}],
    }
    start = Candidate.of(check(campaign_file(given)).campaign)
    smaller = [one for one in way("cells").less(start) if one.document["cells"]["acks"] == "all"]
    (alone,) = smaller
    assert (alone.document["cells"]["exclude"], alone.document["expect"]) == ([], [])
    assert [cell.name for cell in expand(alone.campaign.cells)] == [
        "acks-all.minisr-1",
        "acks-all.minisr-1.idempotence-true",
        "acks-all.minisr-2",
        "a",
    ]


def test_cells_that_a_target_names_stay(campaign: Campaign) -> None:
    start = candidate(campaign, ("leader(acks-1-minisr-1, any)", 20_000, 8_000))
    kept = [
        set(runs_of(one.campaign)[0].cells[0].cell.settings) for one in way("cells").less(start)
    ]
    assert kept
    for one in way("cells").less(start):
        topics = {planned.cell.topic for planned in runs_of(one.campaign)[0].cells}
        assert "acks-1-minisr-1" in topics
        assert len(topics) < 6


def test_no_fewer_brokers_than_replicas(campaign: Campaign) -> None:
    cluster = campaign.cluster.model_copy(update={"brokers": (5,), "zookeepers": (3,)})
    start = candidate(campaign, ("broker-4", 0, 8_000), cluster=cluster)
    found = [one.campaign.cluster.largest for one in way("servers").less(start)]
    assert [(one.brokers, one.zookeepers) for one in found] == [(4, 3), (5, 1), (5, 2)]


def test_clients_that_the_failure_does_not_need_are_removed(campaign: Campaign) -> None:
    groups = tuple(GroupSpec(name=name, members=2) for name in "ab")
    busy = campaign.workload.model_copy(
        update={"producers": 3, "readers": 1, "readers_where": {"acks": "all"}, "groups": groups}
    )
    found = [
        (one.campaign.workload.producers, one.campaign.workload.readers,
         [group.name for group in one.campaign.workload.groups])
        for one in way("clients").less(candidate(campaign, workload=busy))
    ]  # fmt: skip
    both = ["a", "b"]
    assert found == [(1, 1, both), (3, 0, both), (3, 1, ["b"]), (3, 1, ["a"])]


def test_a_whole_search_over_campaigns(campaign: Campaign) -> None:
    """It takes the kill that is held for three seconds, acks=all, and 50 records a second."""

    def fails(one: Candidate) -> bool:
        faults = one.campaign.faults
        topics = {planned.cell.topic for planned in runs_of(one.campaign)[0].cells}
        return (
            any(
                isinstance(f, FaultEntry) and f.fault == "kill" and f.hold[0] >= 3_000
                for f in faults
            )
            and "acks-all-minisr-2" in topics
            and one.campaign.workload.rate >= 50
        )

    many = [("broker-1", 10_000 * n, 700) for n in range(6)]
    start = candidate(campaign, *many, ("one", 90_000, 13_000))
    told: list[tuple[str, bool]] = []
    search = Search(
        fails=fails, ways=WAYS, report=lambda one, _tally, best: told.append((str(one), best))
    )
    found = search.shrink(start).campaign
    (fault,) = found.faults
    assert (fault.at, fault.hold) == ((3_000, 3_000), (3_200, 3_200))
    assert [one.cell.topic for one in runs_of(found)[0].cells] == ["acks-all-minisr-2"]
    assert (found.workload.rate, found.cluster.largest.brokers) == (50, 3)
    assert told[-1] == ("1 fault, 1 cell, 3 brokers, 50 records/s", False)


# --- the judge ---------------------------------------------------------------------------------


class Processes(ChildProcesses):
    """Runs nothing, and leaves behind what a campaign would have."""

    asked_to_stop = False

    def __init__(self, result: Callable[[Campaign], CampaignResult | None]) -> None:
        super().__init__()
        self.result = result
        self.runs = 0

    def campaign(self, arguments: Sequence[str], output: object = None) -> ExitStatus:  # noqa: ARG002
        file, option, directory = arguments
        assert option == "--out"
        self.runs += 1
        campaign = load(Path(file))
        result = self.result(campaign)
        Path(directory).mkdir()
        if result is None:
            return ExitStatus.INCONCLUSIVE
        document = verdict.to_document({"name": campaign.name, "seed": 1}, result)
        verdict.write(Path(directory), document)
        return ExitStatus.BROKEN if result.verdict is Verdict.FAIL else ExitStatus.HELD


def judging(tmp_path: Path, processes: Processes, runs_max: int = 99, failure: str = LOST) -> Judge:
    return Judge(tmp_path, frozenset({failure}), processes, runs_max)


class TestJudge:
    def test_run_that_breaks_one_of_the_guarantees_is_the_same_failure(
        self, campaign: Campaign, tmp_path: Path
    ) -> None:
        answers = [(LOST, "order"), ("order",), ()]
        judge = judging(tmp_path, Processes(lambda _: result_of(answers.pop(0))))
        one = candidate(campaign, ("one", 0, 500))
        assert [judge.fails(one) for _ in range(3)] == [True, False, False]

    def test_run_that_misses_one_of_the_expectations_is_the_same_failure(
        self, campaign: Campaign, tmp_path: Path
    ) -> None:
        lost = [kept(3), kept(0), kept(3, measure="duplicated")]
        judge = judging(
            tmp_path, Processes(lambda _: result_with([lost.pop(0)])), failure="lost <= 0"
        )
        one = candidate(campaign, ("one", 0, 500))
        assert [judge.fails(one) for _ in range(3)] == [True, False, False]

    def test_results_of_runs_are_remembered(self, campaign: Campaign, tmp_path: Path) -> None:
        answers = [(LOST,), (), (LOST,)]
        one = candidate(campaign, ("one", 0, 500))
        first = judging(tmp_path, Processes(lambda _: result_of(answers.pop(0))))
        assert [first.fails(one) for _ in range(2)] == [True, False]
        processes = Processes(lambda _: result_of(answers.pop(0)))
        second = judging(tmp_path, processes)
        assert [second.fails(one) for _ in range(3)] == [True, False, True]
        assert processes.runs == 1

    def test_half_a_line_of_the_journal_is_no_run(self, campaign: Campaign, tmp_path: Path) -> None:
        one = candidate(campaign, ("one", 0, 500))
        judging(tmp_path, Processes(lambda _: result_of((LOST,)))).fails(one)
        journal = tmp_path / DIRECTORY / "journal.jsonl"
        journal.write_text(journal.read_text() + '{"candidate": "abc", "fai')
        processes = Processes(lambda _: result_of(()))
        again = judging(tmp_path, processes)
        assert [again.fails(one) for _ in range(2)] == [True, False]
        third = judging(tmp_path, Processes(lambda _: result_of((LOST,))))
        assert [third.fails(one) for _ in range(2)] == [True, False], "what came after it, too"

    def test_interrupted_run_is_no_judgement(self, campaign: Campaign, tmp_path: Path) -> None:
        def asked(_: Campaign) -> CampaignResult:
            processes.asked_to_stop = True
            return result_of((LOST,))

        processes = Processes(asked)
        judge = judging(tmp_path, processes)
        with pytest.raises(Interrupted):
            judge.fails(candidate(campaign, ("one", 0, 500)))
        assert not (tmp_path / DIRECTORY / "journal.jsonl").exists()
        assert not (tmp_path / DIRECTORY / "run").exists()

    def test_so_many_runs_and_no_more(self, campaign: Campaign, tmp_path: Path) -> None:
        judge = judging(tmp_path, Processes(lambda _: result_of(())), runs_max=2)
        one = candidate(campaign, ("one", 0, 500))
        assert [judge.fails(one) for _ in range(2)] == [False, False]
        with pytest.raises(RunLimitReached):
            judge.fails(one)

    @pytest.mark.parametrize("answer", [None, result_of((), infrastructure_failed=True)])
    def test_a_run_that_broke_down_says_nothing(
        self, campaign: Campaign, tmp_path: Path, answer: CampaignResult | None
    ) -> None:
        answers = [answer, answer, result_of((LOST,))]
        judge = judging(tmp_path, Processes(lambda _: answers.pop(0)))
        assert judge.fails(candidate(campaign, ("one", 0, 500))) is True
        never = judging(tmp_path, Processes(lambda _: answer))
        with pytest.raises(InfraError, match="cannot be run on this machine"):
            never.fails(candidate(campaign, ("one", 0, 700)))

    def test_smallest_campaign_is_a_file_with_its_failure_count(
        self, campaign: Campaign, tmp_path: Path
    ) -> None:
        judge = judging(tmp_path, Processes(lambda _: result_of((LOST,))))
        one = candidate(campaign, ("one", 0, 500))
        assert judge.fails(one)
        judge.keep(one, RunCounts(1, 3))
        file = tmp_path / DIRECTORY / "smallest.yaml"
        assert file.read_text().startswith(f"# Failed 1 of 3 runs: {LOST}.\n")
        assert load(file) == one.campaign
        kept = verdict.read(tmp_path / DIRECTORY / "smallest")
        assert kept is not None
        assert kept.verdict is Verdict.FAIL

    def test_progress_announces_the_smallest_campaign_once(
        self, campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        judge = judging(tmp_path, Processes(lambda _: result_of((LOST,))))
        whole, less = (candidate(campaign, ("one", 0, gap)) for gap in (700, 500))
        tell = SearchProgress(judge, whole)
        for tried in (whole, whole, less, less):
            assert judge.fails(tried)
            tell(tried, RunCounts(1, 1), True)
        lines = capsys.readouterr().out.splitlines()
        announced = [line.endswith("the smallest so far") for line in lines]
        assert announced == [False, False, True, False]


# --- the command ---------------------------------------------------------------------------------


def test_nothing_to_shrink(campaign: Campaign, tmp_path: Path) -> None:
    def shrink(directory: Path, *options: str):
        return CliRunner().invoke(cli, ["shrink", str(directory), *options])

    assert shrink(tmp_path).exit_code == 2
    directory = create(campaign.resolved(seed=1), 0, tmp_path / "out")
    unchecked = shrink(directory)
    assert (unchecked.exit_code, "has not been checked" in unchecked.stderr) == (2, True)
    document = verdict.to_document({"name": "small", "seed": 1}, result_of(()))
    (directory / "verdict.json").write_text(json.dumps(document))
    held = shrink(directory)
    assert (held.exit_code, "no run of it broke a guarantee or missed an" in held.stderr) == (
        2,
        True,
    )
    other = shrink(directory, "--run", "1")
    assert (other.exit_code, "run 1 broke no guarantee" in other.stderr) == (2, True)
    for result in (unchecked, held, other):
        assert "Traceback" not in result.output


def test_results_with_other_names_of_topics_are_refused_with_the_names(
    campaign_file, tmp_path: Path
) -> None:
    """Topics once had the first value of every list in their names."""
    given = {"cells.enable~idempotence": [False, True], "cells.acks": "all"}
    story = {"story": "crash-loop", "topic": "acks-all-minisr-2-idempotence-false"}
    campaign = load(campaign_file({**given, "faults": [story]})).resolved(seed=1)
    directory = create(campaign, 0, tmp_path / "out")
    result = CliRunner().invoke(cli, ["shrink", str(directory)])
    assert result.exit_code == 2
    assert "no cell has the topic 'acks-all-minisr-2-idempotence-false'" in result.stderr
    assert "acks-all-minisr-2" in result.stderr.partition("There are ")[2]
    assert "Traceback" not in result.output


def test_a_candidate_s_file_is_yaml_with_kafka_s_names(campaign: Campaign) -> None:
    document = yaml.safe_load(candidate(campaign, ("one", 0, 500)).text)
    assert document["cells"]["min.insync.replicas"] == [1, 2]
    assert document["faults"][0]["seed"] == 1
