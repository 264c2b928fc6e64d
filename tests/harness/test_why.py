"""``ackproof why``: which changes are tried, what is kept, and what so many runs show."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.verdict import CampaignResult, CellResult, Latency, RunResult, Verdict
from ackproof.harness.campaign.validation import load
from ackproof.harness.cli import cli
from ackproof.harness.counterfactuals.answer import DOCUMENT, PAGE, Answer, all_looks
from ackproof.harness.counterfactuals.changes import (
    AS_IT_WAS,
    NEWEST,
    Variant,
    translated,
    variants,
)
from ackproof.harness.counterfactuals.failures import Failure, NoCounterfactual, failure
from ackproof.harness.counterfactuals.odds import (
    Odds,
    compared,
    hopeless,
    odds,
    runs_needed,
    shared_doubt,
)
from ackproof.harness.counterfactuals.question import Question
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.shrinking.reductions import Candidate
from ackproof.harness.subprocesses import CachedRun
from ackproof.infra.clients.builds import KAFKA_CLIENTS
from tests.support.builders.results import cell_result, guarantee

DESIGN: Mapping[str, Any] = {
    "name": "by-design",
    "seed": 3,
    "cluster": {"system": "bundled", "brokers": 3},
    "cells": {
        "acks": ["1", "all"],
        "min.insync.replicas": 1,
        "replication.factor": 3,
        "partitions": 1,
    },
    "workload": {"kind": "produce", "rate": 100, "record.bytes": 100},
    "faults": [
        {"fault": "kill", "target": "leader(acks-all-minisr-1, 0)", "hold": "2s"},
        {"fault": "isolate", "target": "leader(acks-1-minisr-1, 0)", "hold": "9s"},
    ],
}


KRAFT = ", isolated-kraft instead of zookeeper"
"""The note of a change to a release without ZooKeeper, in its name."""
LOSS = Failure(run=1, cell="x", guarantee="no-acked-record-lost")


def candidate(tmp_path: Path, **changes: Any) -> Candidate:
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump({**DESIGN, **changes}), encoding="utf-8")
    return Candidate.of(load(file))


def tried(tmp_path: Path, cell: str = "acks-1.minisr-1", **changes: Any) -> dict[str, Variant]:
    found, _ = variants(candidate(tmp_path, **changes), cell)
    return {one.name: one for one in found}


def left(tmp_path: Path, cell: str = "acks-1.minisr-1", **changes: Any) -> dict[str, str]:
    _, found = variants(candidate(tmp_path, **changes), cell)
    return {one.name: one.reason for one in found}


# --- changes --------------------------------------------------------------------------------------


def test_changes_follow_from_the_campaign(tmp_path: Path) -> None:
    names = list(tried(tmp_path))
    assert names[0] == AS_IT_WAS
    assert {
        "acks=all",
        "acks=all and min.insync.replicas=2",
        "flush.messages=1",
        "without fault 1, kill on leader(acks-1-minisr-1, 0)",
        "without fault 2, isolate on leader(acks-1-minisr-1, 0)",
    } <= set(names)
    reasons = left(tmp_path)
    assert reasons["unclean.leader.election.enable=false"] == "already so"
    assert reasons["min.insync.replicas=2"] == "has an effect only with acks=all"
    assert reasons["enable.idempotence=true"] == "needs acks=all"
    assert "bundled" in reasons["eligible leader replicas"]


def test_change_that_is_not_valid_is_left_out_with_its_first_problem(tmp_path: Path) -> None:
    removed = {"inter.broker.protocol.version": "3.9", "log.message.format.version": "3.0"}
    old = {"system": "kafka:3.9.1", "metadata.quorum": "zookeeper", "brokers": 3}
    reason = left(tmp_path, cluster={**old, "properties": removed})[f"release {NEWEST}{KRAFT}"]
    assert reason.startswith("not valid here: cluster.properties.inter.broker.protocol.version: ")
    assert reason.endswith("(1 more)")
    assert "log.message.format.version" not in reason


def test_each_change_keeps_the_topic_of_the_cell(tmp_path: Path) -> None:
    for one in tried(tmp_path).values():
        document = yaml.safe_load(one.text)
        assert document["cells"]["name"] == [{"where": {}, "name": "acks-1-minisr-1"}]
        assert {fault["target"] for fault in document["faults"]} == {"leader(acks-1-minisr-1, 0)"}
    changed = yaml.safe_load(tried(tmp_path)["acks=all"].text)
    assert (changed["cells"]["acks"], changed["expect"]) == ("all", [])


def test_cell_with_acks_all_gets_a_higher_floor_and_idempotence(tmp_path: Path) -> None:
    names = tried(tmp_path, "acks-all.minisr-1")
    assert {"min.insync.replicas=2", "enable.idempotence=true"} <= set(names)
    assert left(tmp_path, "acks-all.minisr-1")["acks=all"] == "already so"


def test_unclean_election_is_switched_off(tmp_path: Path) -> None:
    cells = {**DESIGN["cells"], "unclean.leader.election.enable": True}
    one = tried(tmp_path, cells=cells)["unclean.leader.election.enable=false"]
    assert yaml.safe_load(one.text)["cells"]["unclean.leader.election.enable"] is False


def test_older_kafka_gets_a_release_with_eligible_leader_replicas(tmp_path: Path) -> None:
    old = {"system": "kafka:3.9.1", "brokers": 3}
    name = f"release kafka:4.1.1{KRAFT}"
    assert tried(tmp_path, cluster=old)[name].system == "kafka:4.1.1"
    new = {"system": "kafka:4.1.1", "brokers": 3}
    assert "by default" in left(tmp_path, cluster=new)["eligible leader replicas"]


def test_newest_release_is_a_change(tmp_path: Path) -> None:
    name = f"release {NEWEST}"
    old = {"system": "kafka:3.2.0", "brokers": 3, "metadata.quorum": "zookeeper"}
    changed = tried(tmp_path, cluster=old)[name + KRAFT]
    assert changed.system == NEWEST
    assert "metadata.quorum" not in yaml.safe_load(changed.text)["cluster"]
    kraft = {**old, "system": "kafka:4.1.1", "metadata.quorum": "isolated-kraft"}
    assert name in tried(tmp_path, cluster=kraft), "nothing but the release changes"
    assert left(tmp_path, cluster={"system": NEWEST, "brokers": 3})[name] == "already so"
    assert "no release" in left(tmp_path)[name]


def test_older_java_client_gets_the_newest(tmp_path: Path) -> None:
    cells = {**DESIGN["cells"], "client": "java:4.1.1"}
    one = tried(tmp_path, cells=cells)[f"client=java:{KAFKA_CLIENTS}"]
    assert yaml.safe_load(one.text)["cells"]["client"] == "java"


@pytest.mark.parametrize(
    ("former", "library", "config", "kept", "told"),
    [
        (
            "librdkafka",
            "java",
            {"socket.timeout.ms": 1500, "batch.num.messages": 1, "linger.ms": 7},
            {"linger.ms": 7, "request.timeout.ms": 1500},
            ["request.timeout.ms instead of socket.timeout.ms", "without batch.num.messages"],
        ),
        ("librdkafka", "java", {"request.timeout.ms": 9}, {}, ["without request.timeout.ms"]),
        (
            "java",
            "librdkafka",
            {"request.timeout.ms": 1000, "linger.ms": 7},
            {"linger.ms": 7, "socket.timeout.ms": 1000},
            ["socket.timeout.ms instead of request.timeout.ms"],
        ),
        ("java", "franz-go", {"request.timeout.ms": 1000}, {"request.timeout.ms": 1000}, []),
        ("java", "aiokafka", {"compression.type": "zstd"}, {}, ["without compression.type"]),
    ],
)
def test_another_client_gets_the_properties_that_it_has(
    former: str,
    library: str,
    config: Mapping[str, Any],
    kept: Mapping[str, Any],
    told: Sequence[str],
) -> None:
    assert translated(config, former, library) == (kept, told)


def test_many_faults_are_not_left_out_one_by_one(tmp_path: Path) -> None:
    assert "ackproof shrink" in left(tmp_path, faults=DESIGN["faults"] * 5)["without one fault"]


def test_cells_that_share_producers_stay_together(tmp_path: Path) -> None:
    shared: dict[str, Any] = {
        "cells": {**DESIGN["cells"], "acks": "all", "min.insync.replicas": [1, 2]},
        "workload": {**DESIGN["workload"], "producers.shared": True},
        "faults": [
            {"fault": "kill", "target": f"leader(acks-all-minisr-{number}, 0)", "hold": "2s"}
            for number in (1, 2)
        ],
    }
    found = tried(tmp_path, "acks-all.minisr-1", **shared)
    documents = {name: yaml.safe_load(one.text) for name, one in found.items()}
    for name in (AS_IT_WAS, "enable.idempotence=true", "flush.messages=1"):
        assert documents[name]["cells"]["min.insync.replicas"] == [1, 2]
        assert [one["target"] for one in documents[name]["faults"]] == [
            "leader(acks-all-minisr-1, 0)",
            "leader(acks-all-minisr-2, 0)",
        ]
    untried = left(tmp_path, "acks-all.minisr-1", **shared)
    assert untried["min.insync.replicas=2"].startswith("not valid here: "), "it would join them"
    shared["workload"]["producers.shared"] = False
    alone = yaml.safe_load(tried(tmp_path, "acks-all.minisr-1", **shared)[AS_IT_WAS].text)
    assert alone["cells"]["min.insync.replicas"] == 1


def test_unknown_cell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoCounterfactual, match="no cell acks-0"):
        variants(candidate(tmp_path), "acks-0")


# --- odds -----------------------------------------------------------------------------------------


def of(name: str, lost: int, runs: int, p99_ms: float | None = None) -> Odds:
    return Odds(name=name, failed=lost, runs=runs, inconclusive=0, p99_ms=p99_ms)


def test_change_that_prevents_the_loss_is_ranked_first() -> None:
    found = compared(of(AS_IT_WAS, 10, 10), [of("a", 9, 10), of("b", 0, 10), of("c", 10, 10)])
    assert [(one.name, one.rank, one.differs) for one in found] == [
        ("b", 1, True),
        ("a", None, False),
        ("c", None, False),
    ]


def test_overlapping_changes_share_a_rank() -> None:
    found = compared(
        of(AS_IT_WAS, 40, 40), [of("much", 20, 40), of("some", 1, 40), of("all", 0, 40)]
    )
    assert [(one.name, one.rank) for one in found] == [("all", 1), ("some", 1), ("much", 3)]


def test_changes_with_too_few_runs_do_not_weaken_other_tests() -> None:
    few = [of("few", 0, 2), of("fewer", 0, 1)]
    found = compared(of(AS_IT_WAS, 4, 4), [*few, of("enough", 0, 4)])
    assert [(one.name, one.rank) for one in found] == [
        ("enough", 1),
        ("few", None),
        ("fewer", None),
    ]
    both = compared(of(AS_IT_WAS, 4, 4), [of("a", 0, 4), of("b", 0, 4)])
    assert [one.chance for one in both] == [None, None], "two tests need more runs than one"


def test_change_is_given_up_when_no_further_run_could_help() -> None:
    base = of(AS_IT_WAS, 2, 2)
    assert hopeless(base, of("a", 2, 2), 6), "at best 2 of 6 against 6 of 6: p = 0.06"
    assert not hopeless(base, of("a", 1, 2), 6), "at best 1 of 6 against 6 of 6: p = 0.015"
    assert not hopeless(base, of("a", 0, 2), 6)
    assert not hopeless(base, of("a", 2, 2), 12), "more runs can show a smaller difference"
    assert hopeless(of(AS_IT_WAS, 2, 6), of("a", 1, 3), 6), "the loss itself is rare"


@given(
    base=st.lists(st.booleans(), min_size=6, max_size=6),
    change=st.lists(st.booleans(), min_size=6, max_size=6),
    seen=st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_change_that_is_given_up_would_not_have_been_ranked(
    base: list[bool], change: list[bool], seen: tuple[int, int]
) -> None:
    so_far, of_change = seen
    early = of(AS_IT_WAS, sum(base[:so_far]), so_far)
    if hopeless(early, of("a", sum(change[:of_change]), of_change), 6):
        (whole,) = compared(of(AS_IT_WAS, sum(base), 6), [of("a", sum(change), 6)])
        assert whole.rank is None


def test_changes_that_were_given_up_count_among_the_tests() -> None:
    base, gone = of(AS_IT_WAS, 4, 4), [of("gone", 2, 2), of("too", 2, 2)]
    found = compared(base, [*gone, of("a", 0, 4)])
    assert [one.rank for one in found] == [None] * 3, "three tests need more runs than one"
    base = of(AS_IT_WAS, 6, 6)
    answer = answer_of(base, *compared(base, [*gone, of("a", 0, 6)]))
    assert answer.conclusion.endswith("reduces the loss most: a.")
    assert "| gone | 2 of 2 (16 to 100 %) | not shown to differ, p = 1 |" in answer.page()
    answer = answer_of(base, *compared(base, [*gone, of("a", 2, 2)]))
    assert answer.conclusion == "No change is shown to prevent the loss."


def test_runs_that_are_added_after_an_answer_make_the_tests_stricter() -> None:
    base, change = of(AS_IT_WAS, 4, 4), of("a", 0, 4)
    (once,) = compared(base, [change])
    (again,) = compared(base, [change], shared_doubt(2))
    assert (once.rank, again.rank) == (1, None), "p = 0.029"
    assert not hopeless(base, of("a", 1, 2), 6)
    assert hopeless(base, of("a", 1, 2), 6, shared_doubt(4)), "at best p = 0.015"
    answer = replace(answer_of(base, replace(again, chance=0.029)), looks=(3, 4))
    assert "(3, then 4 of each), which gives chance another try: the tests are 2 times" in (
        answer.page()
    )
    assert answer.as_document["looks"] == [3, 4]
    assert answer.as_document["runs_needed"] == runs_needed(1, shared_doubt(3))


@pytest.mark.parametrize(
    ("kept", "runs", "found"),
    [
        (None, 6, [6]),
        ({"cell": "x", "guarantee": LOSS.guarantee, "looks": [6]}, 12, [6, 12]),
        ({"cell": "x", "guarantee": LOSS.guarantee, "looks": [6]}, 6, [6]),
        ({"cell": "x", "guarantee": LOSS.guarantee, "looks": [6]}, 0, [6]),
        ({"cell": "x", "guarantee": LOSS.guarantee, "looks": []}, 6, [6]),
        ({"cell": "y", "guarantee": LOSS.guarantee, "looks": [6]}, 12, [12]),
        ({"cell": "x", "guarantee": "no-duplicates", "looks": [6]}, 12, [12]),
        ({"cell": "x", "guarantee": LOSS.guarantee}, 6, [6]),
        ("{", 6, [6]),
        (None, 0, []),
    ],
)
def test_looks_are_those_at_the_same_failure(
    tmp_path: Path, kept: object, runs: int, found: list[int]
) -> None:
    if kept is not None:
        text = kept if isinstance(kept, str) else json.dumps(kept)
        (tmp_path / DOCUMENT).write_text(text, encoding="utf-8")
    assert all_looks(tmp_path, LOSS, runs) == found


def test_answer_without_tests_is_no_look() -> None:
    few = compared(of(AS_IT_WAS, 2, 2), [of("a", 0, 2)])
    answer = replace(answer_of(of(AS_IT_WAS, 2, 2), *few), looks=(2,))
    assert answer.as_document["looks"] == []
    assert f"continue with --runs {runs_needed(1)}." in answer.conclusion


def test_too_few_runs_rank_nothing_and_say_so() -> None:
    changes = compared(of(AS_IT_WAS, 2, 2), [of("a", 0, 2), of("b", 2, 2)])
    assert [(one.chance, one.rank) for one in changes] == [(None, None)] * 2
    answer = answer_of(of(AS_IT_WAS, 2, 2), *changes)
    assert f"fewer than {runs_needed(2)} conclusive runs" in answer.conclusion
    assert "| a | 0 of 2 (0 to 84 %) | too few runs for a test |" in answer.page()


def test_loss_that_did_not_come_back_says_nothing_about_its_cause() -> None:
    base = of(AS_IT_WAS, 0, 10)
    answer = answer_of(base, *compared(base, [of("a", 0, 10)]))
    assert "did not come back in 10 runs of" in answer.conclusion
    assert "did not come back in 1 run of" in answer_of(of(AS_IT_WAS, 0, 1)).conclusion


def answer_of(base: Odds, *changes: Odds) -> Answer:
    return Answer(
        campaign="c", origin="As recorded.", failure=LOSS, base=base, changes=changes, left=()
    )


def test_cost_of_a_change_is_beside_its_odds() -> None:
    base = of(AS_IT_WAS, 10, 10, 50.0)
    answer = answer_of(base, *compared(base, [of("acks=all", 0, 10, 52.0)]))
    assert "| 1 | acks=all | 0 of 10 (0 to 31 %) | fewer, p = " in answer.page()
    assert "| 52 ms (+4 %) | 0 |" in answer.page()
    assert answer.conclusion == (
        "Of the changes with enough runs for a test, this one reduces the loss most: acks=all."
    )


# --- runs -----------------------------------------------------------------------------------------


LATENCY = Latency(records=9, since_due=False, p50_ms=1, p90_ms=2, p99_ms=8, p999_ms=9, longest_ms=9)


def was_run(
    directory: Path,
    lost: int | None,
    found: Verdict = Verdict.NOT_GUARANTEED,
    proven: bool | None = True,
) -> None:
    directory.mkdir(parents=True)
    cell = cell_result("x", found, lost=lost, ack_latency=LATENCY)
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    told = CampaignResult(
        verdict=found, cells=(cell,), anomalies={"lost": lost or 0}, findings=("busy",), runs=(run,)
    )
    document = verdict.to_document({"name": "c", "seed": 1}, told)
    fault = {"run": 1, "name": "kill#1", "target": "any", "servers": ["broker-1"], "began": ""}
    verdict.write(directory, {**document, "faults": [{**fault, "proven": proven}]})


def test_runs_are_counted_and_inconclusive_ones_are_not(tmp_path: Path) -> None:
    runs = [
        CachedRun(file=tmp_path / "c", system="bundled", seed=1, directory=tmp_path / str(number))
        for number in range(6)
    ]
    was_run(runs[0].directory, 5)
    was_run(runs[1].directory, 0)
    was_run(runs[2].directory, 0, Verdict.INCONCLUSIVE)
    was_run(runs[3].directory, 0, proven=False)
    was_run(runs[4].directory, None)
    found = odds("a", runs)
    assert (found.failed, found.runs, found.inconclusive, found.p99_ms) == (1, 2, 3, 8)


def variant(name: str, text: str) -> Variant:
    return Variant(name=name, text=text, system="bundled")


def question_of(results: Path, *variants: Variant) -> Question:
    return Question(
        results=results,
        campaign="c",
        seed=1,
        origin="As recorded.",
        failure=LOSS,
        variants=variants,
        left=(),
    )


def test_change_without_a_verdict_is_named_with_the_last_words_of_its_runs(tmp_path: Path) -> None:
    question = question_of(tmp_path, variant(AS_IT_WAS, "a"), variant("acks=all", "b"))
    runs = [one for variant, one in question.planned(2) if variant.name == "acks=all"]
    assert [one.reason for one in question.answer.left] == ["not run yet"]
    for one in runs:
        one.output.write_text("deploying\n\x1b[31mno such release\n")
    (left_out,) = question.answer.left
    assert left_out.reason.startswith("no verdict in 2 runs, at last: ")
    assert left_out.reason.endswith("no such release")
    assert "\x1b" not in left_out.reason


def test_variant_without_a_verdict_is_not_run_to_the_end(tmp_path: Path) -> None:
    question = question_of(tmp_path, variant(AS_IT_WAS, "a"), variant("vain", "b"))
    run = []
    for one, planned in question.planned(6):
        if one.name == AS_IT_WAS:
            was_run(planned.directory, 5)
        run.append(one.name)
    assert {name: run.count(name) for name in run} == {AS_IT_WAS: 6, "vain": 2}
    again = [one.name for one, _ in question.planned(6)]
    assert again.count("vain") == 2, "the next call tries again"


def test_run_without_a_verdict_after_others_ends_nothing(tmp_path: Path) -> None:
    question = question_of(tmp_path, variant(AS_IT_WAS, "a"))
    run = 0
    for _, planned in question.planned(6):
        run += 1
        if run == 1:
            was_run(planned.directory, 5)
    assert run == 6


def test_runs_of_a_change_are_kept_under_its_former_name(tmp_path: Path) -> None:
    former = question_of(tmp_path, variant(AS_IT_WAS, "a"), variant("release", "b"))
    for _, planned in former.planned(1):
        was_run(planned.directory, 5)
    now = question_of(tmp_path, variant(AS_IT_WAS, "a"), variant("release, with KRaft", "b"))
    assert [(one.name, one.runs) for one in now.answer.changes] == [("release, with KRaft", 1)]


def test_kept_runs_belong_to_their_campaign_alone(tmp_path: Path) -> None:
    question = question_of(tmp_path, variant(AS_IT_WAS, "a"), variant("acks=all", "b"))
    planned = list(question.planned(2))
    assert [variant.name for variant, _ in planned] == [AS_IT_WAS, "acks=all"] * 2
    was_run(planned[0][1].directory, 5)
    assert (question.answer.base.failed, question.answer.base.runs) == (1, 1)
    unwanted = replace(question, wanted=["flush.messages=1"])
    assert [one.name for one in unwanted.answer.changes] == []
    was_run(planned[1][1].directory, 0)
    assert [one.name for one in unwanted.answer.changes] == ["acks=all"], "what was run is kept"
    other = replace(question, variants=[variant(AS_IT_WAS, "other"), question.variants[1]])
    assert other.answer.base.runs == 0


def test_hopeless_change_is_not_run_again(tmp_path: Path) -> None:
    question = question_of(
        tmp_path, variant(AS_IT_WAS, "a"), variant("vain", "b"), variant("acks=all", "c")
    )
    run, left = [], []
    for one, planned in question.planned(6):
        was_run(planned.directory, 0 if one.name == "acks=all" else 5)
        run.append(one.name)
        left.append(question.most_left(6))
    assert {name: run.count(name) for name in run} == {AS_IT_WAS: 6, "vain": 2, "acks=all": 6}
    assert left == [17, 16, 15, 14, *range(9, -1, -1)], "four runs less at the second loss"
    assert question.answer.conclusion.endswith("reduces the loss most: acks=all.")


def test_outcome_of_a_run_is_in_words(tmp_path: Path) -> None:
    question = question_of(tmp_path, variant(AS_IT_WAS, "a"))
    outcomes = []
    for number, lost in enumerate((5, 0, None)):
        was_run(tmp_path / str(number), lost)
        outcomes.append(
            question.outcome(verdict.read_document(tmp_path / f"{number}/verdict.json"))
        )
    assert outcomes == ["records were lost", "no loss", "inconclusive: busy"]


# --- the command ----------------------------------------------------------------------------------


def results(directory: Path, lost: int) -> Path:
    """Write results whose shrunk campaign exists, so that no history is needed."""
    directory.mkdir()
    smallest = directory / "shrink" / "smallest.yaml"
    smallest.parent.mkdir()
    smallest.write_text(yaml.safe_dump(dict(DESIGN)), encoding="utf-8")
    (directory / "campaign.yaml").write_text(smallest.read_text(), encoding="utf-8")
    cell = cell_result(
        "acks-1.minisr-1",
        Verdict.NOT_GUARANTEED,
        lost=lost,
        guarantees=[guarantee(promised=False)],
    )
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    told = CampaignResult(
        verdict=Verdict.NOT_GUARANTEED,
        cells=(cell,),
        anomalies={"lost": lost},
        findings=(),
        runs=(run,),
    )
    verdict.write(directory, verdict.to_document(dict(DESIGN), told))
    return directory


def why(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["why", *arguments])


def test_list_names_changes_and_untried_ones(tmp_path: Path) -> None:
    found = why(str(results(tmp_path / "r", 5)), "--list")
    assert found.exit_code == 0, found.output
    assert "acks=all\n" in found.output
    assert "not tried: unclean.leader.election.enable=false: already so" in found.output


def test_change_may_be_named_up_to_its_first_comma(tmp_path: Path) -> None:
    arguments = ["--runs", "0", "--change", "without fault 2"]
    found = why(str(results(tmp_path / "r", 5)), *arguments)
    assert found.exit_code == 3, found.output
    assert found.output.startswith(
        "as it was: no conclusive run\nThe campaign was not run as it was"
    )


def test_page_shows_all_existing_runs(tmp_path: Path) -> None:
    directory = results(tmp_path / "r", 5)
    found = why(str(directory), "--runs", "0", "--change", "acks=all")
    assert found.exit_code == 3, found.output
    document = json.loads((directory / DOCUMENT).read_text())
    assert (document["changes"], document["looks"]) == ([], [])
    assert {"name": "acks=all", "reason": "not run yet"} in document["left_out"]
    assert (document["as_it_was"]["runs"], document["as_it_was"]["low"]) == (0, None)
    assert "no conclusive run" in (directory / PAGE).read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--change", "acks=al"), "acks=all"),
        (("--change", "acks=1"), "unknown change 'acks=1'"),
        (("--change", "min.insync.replicas=2"), "is not tried: has an effect only with acks=all"),
        (("--cell", "acks-0"), "unknown cell 'acks-0'; known: acks-1.minisr-1"),
        (("--guarantee", "acked-record-lost"), "did you mean no-acked-record-lost?"),
    ],
)
def test_unknown_change_or_cell_is_bad_usage(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = why(str(results(tmp_path / "r", 5)), *arguments)
    assert found.exit_code == 2
    assert said in found.output


def test_result_without_a_failure_is_bad_usage(tmp_path: Path) -> None:
    found = why(str(results(tmp_path / "r", 0)))
    assert found.exit_code == 2
    assert "no cell lost a record or broke a guarantee" in found.output


def failed_cells(tmp_path: Path, *cells: CellResult) -> VerdictDocument:
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    told = CampaignResult(
        verdict=cells[0].verdict, cells=cells, anomalies={}, findings=(), runs=(run,)
    )
    verdict.write(tmp_path, verdict.to_document(dict(DESIGN), told))
    return verdict.read_document(tmp_path / verdict.FILE)


def test_broken_promises_come_first_and_losses_before_other_failures(tmp_path: Path) -> None:
    name = LOSS.guarantee
    permitted = cell_result(
        "permitted",
        Verdict.FAIL,
        lost=5,
        guarantees=[guarantee(promised=False), guarantee("replicas-agree", held=False)],
    )
    promised = cell_result(
        "promised",
        Verdict.FAIL,
        lost=5,
        guarantees=[guarantee("acks-in-order", held=False), guarantee(held=False)],
    )
    both = failed_cells(tmp_path, permitted, promised)

    def examined(cell: str | None = None, of: str | None = None) -> tuple[str, str]:
        found = failure(both, cell, of)
        return found.cell, found.guarantee

    assert examined() == ("promised", name)
    assert examined("permitted") == ("permitted", "replicas-agree")
    assert examined("permitted", name) == ("permitted", name)
    assert examined(of="acks-in-order") == ("promised", "acks-in-order")
    with pytest.raises(NoCounterfactual, match="but of acks-in-order in promised; no-acked"):
        examined("promised", "replicas-agree")


def test_runs_count_for_the_guarantee_that_is_examined(tmp_path: Path) -> None:
    runs = []
    for number, one in enumerate(
        (
            guarantee("replicas-agree", held=False),
            guarantee("replicas-agree"),
            replace(guarantee("replicas-agree"), checked=False),
            replace(guarantee("replicas-agree", held=None), lacking="no final log"),
            guarantee("another"),
        )
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        verdict_of = Verdict.FAIL if one.broken else Verdict.PASS
        failed_cells(directory, cell_result("x", verdict_of, guarantees=[one], lost=None))
        runs.append(CachedRun(file=tmp_path / "c", system="bundled", seed=1, directory=directory))
    found = odds("a", runs, "replicas-agree")
    assert (found.failed, found.runs, found.inconclusive) == (1, 2, 3)
    of_loss = odds("a", runs)
    assert (of_loss.failed, of_loss.runs, of_loss.inconclusive) == (0, 0, 5)


def test_page_names_the_guarantee_that_did_not_hold() -> None:
    base = of(AS_IT_WAS, 6, 6)
    answer = replace(
        answer_of(base, *compared(base, [of("a", 0, 6)])),
        failure=replace(LOSS, guarantee="replicas-agree"),
    )
    assert answer.page().startswith("# Why replicas-agree did not hold in x of c\n")
    assert "| replicas-agree did not hold in |" in answer.page()
    assert "reduces the failure most: a." in answer.page()
