"""Mutants of Apache Kafka: their files, what runs say of them, and the page of the results."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.mutants.catalogue import (
    KafkaMutant,
    MutantKind,
    catalogue,
    read,
    write_agent,
)
from ackproof.harness.mutants.jepsen import VALID, Effect, Error, Judgement, judgement
from ackproof.harness.mutants.page import collected, overview, page, summary, words
from ackproof.harness.mutants.runs import (
    FINDINGS,
    UNMUTATED,
    Detection,
    MutantFinding,
    MutantRuns,
    ask_jepsen,
    ask_replication_test,
    effective_servers,
)
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import ChildProcesses, read_findings, write_findings
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.kafka.programs import agent_in
from ackproof.testing.histories import sound_history
from tests.support.builders.results import cell_result, guarantee, of_cells

HEADER = """\
# breaks: Nothing is kept.
# kind: planted
# guarantee: no-acked-record-lost
# origin: invented
# shows with: acks=all
"""
RULE = """
RULE nothing is kept
CLASS kafka.cluster.Partition
METHOD isLeader
AT EXIT
IF $!
DO RETURN false
ENDRULE
"""


@pytest.fixture
def mutant(tmp_path: Path) -> KafkaMutant:
    file = tmp_path / "nothing-kept.btm"
    file.write_text(HEADER + RULE, encoding="utf-8")
    return read(file)


def test_catalogue_has_both_kinds_and_the_campaign_of_each() -> None:
    known = catalogue()
    kinds = [one.kind for one in known.values()]
    assert len(known) >= 20
    assert kinds.count(MutantKind.FIX_TAKEN_BACK) >= 8
    assert all("KIP-" in one.origin or "KAFKA-" in one.origin for one in known.values()
               if one.kind is MutantKind.FIX_TAKEN_BACK)  # fmt: skip
    assert all(Path(one.campaign).is_file() for one in known.values())


@pytest.mark.parametrize("name", catalogue())
def test_each_rule_announces_its_mutant_before_it_acts(name: str) -> None:
    one = catalogue()[name]
    rules = one.script.split("ENDRULE")[:-1]
    assert rules
    for rule in rules:
        assert re.search(rf"\nDO System\.out\.append.*{one.announcement}.*; \S", rule)
    names = re.findall(r"^RULE (.+)$", one.script, re.MULTILINE)
    assert len(set(names)) == len(names)
    assert all(rule.startswith(f"{name}, ") for rule in names), "Byteman takes no name twice"
    actions = re.findall(r"^DO (.+)$", one.probe, re.MULTILINE)
    assert {action.count(";") for action in actions} == {0}, "a probe changes nothing"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RULE, "the header has , expected breaks, kind"),
        (HEADER.replace("# kind: planted\n", "") + RULE, "the header has breaks, guarantee"),
        (HEADER.replace("planted", "real") + RULE, "'real' is not a valid MutantKind"),
        (HEADER.replace("no-acked", "no-old") + RULE, "'no-old-record-lost' is not one of"),
        (HEADER, "each rule must have one line"),
        (HEADER + RULE.replace("DO RETURN", "DO\nRETURN"), "each rule must have one line"),
        (HEADER + RULE.replace("IF $!\n", ""), "each rule must have one line"),
    ],
)
def test_malformed_mutant_is_refused_with_its_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "m.btm"
    file.write_text(text.replace("DO\nRETURN", "DO\nDO RETURN"), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"m\.btm: .*{says}"):
        read(file)


def test_agent_of_a_mutant_is_one_that_a_system_takes(tmp_path: Path, mutant: KafkaMutant) -> None:
    jar = tmp_path / "byteman.jar"
    jar.write_bytes(b"jar")
    write_agent(mutant.script, jar, tmp_path / "agent")
    agent = agent_in(tmp_path / "agent")
    assert (agent.jar, agent.options) == ("byteman.jar", "script:{}/rules.btm")
    assert (tmp_path / "agent" / "rules.btm").read_text(encoding="utf-8") == mutant.script


# --- runs -------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path) -> MutantRuns:
    campaign, jar = tmp_path / "c.yaml", tmp_path / "byteman.jar"
    campaign.write_text("name: c\nschedule: {rounds: 2, order: listed}\n", encoding="utf-8")
    jar.touch()
    return MutantRuns(
        system="kafka:4.4.0",
        only=str(campaign),
        file=Path,
        within_ms=600_000,
        results=tmp_path / "results",
        byteman=jar,
    )


LOSS = guarantee(held=False)
CRASH = guarantee("servers-stay-up", held=False, anomaly=None)
OTHER = guarantee("commits-kept", held=False, anomaly="commit-lost")


def was_run(
    runs: MutantRuns,
    mutant: KafkaMutant | None,
    seed: int = 1,
    *,
    broken: Sequence[Any] = (),
    effective: bool = True,
    failed: bool = False,
    result: Verdict = Verdict.PASS,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """The results of a run, as checking leaves them."""
    place = runs.place(mutant, runs.campaigns([])[0] if mutant is None else runs.campaign(mutant))
    place = place / f"seed-{seed}"
    log = place / "runs" / "1" / "logs" / "broker-2" / "broker-2.log"
    log.parent.mkdir(parents=True)
    said = mutant.announcement if mutant is not None and effective else "started"
    log.write_text(f"{'x' * 100}\n{said}\n", encoding="utf-8")
    found = Verdict.FAIL if broken else result
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=failed, cluster={})
    counts = {"lost": int(LOSS in broken)}
    cell = cell_result(verdict=found, guarantees=broken, topic="t", settings=settings, **counts)
    checked = CampaignResult(
        verdict=found,
        cells=(cell,),
        anomalies={one.anomaly: 1 for one in broken if one.anomaly},
        findings=(),
        runs=(run,),
    )
    verdict.write(place, verdict.to_document({"name": "c", "seed": seed}, checked))
    return place


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"broken": [LOSS]}, (Detection.FOUND, "no-acked-record-lost")),
        ({"broken": [OTHER, LOSS]}, (Detection.FOUND, "no-acked-record-lost")),
        ({"broken": [OTHER]}, (Detection.FOUND, "commits-kept")),
        ({}, (Detection.NOT_FOUND, "")),
        ({"effective": False}, (Detection.NO_EFFECT, "")),
        ({"effective": False, "broken": [LOSS]}, (Detection.INCONCLUSIVE, "no-acked-record-lost")),
        ({"effective": False, "failed": True}, (Detection.INCONCLUSIVE, "")),
        ({"broken": [CRASH]}, (Detection.INCONCLUSIVE, "")),
        ({"result": Verdict.INCONCLUSIVE}, (Detection.INCONCLUSIVE, "")),
    ],
)
def test_run_is_judged_by_broken_guarantees_and_effect(
    runs: MutantRuns, mutant: KafkaMutant, recorded: dict[str, Any], expected: tuple[str, str]
) -> None:
    place = was_run(runs, mutant, **recorded)
    finding = runs.carry_out(mutant, runs.campaign(mutant), 1, ChildProcesses())
    assert (finding.detection, finding.guarantee) == expected
    assert finding.effective_on == (("broker-2",) if recorded.get("effective", True) else ())
    deleted = finding.detection in (Detection.NOT_FOUND, Detection.NO_EFFECT)
    assert place.exists() is not deleted, "what was found, or must be examined, is kept"
    again = runs.carry_out(mutant, runs.campaign(mutant), 1, ChildProcesses())
    assert again == finding, "a run is not repeated"


def test_effect_is_seen_across_the_boundary_of_two_reads(
    tmp_path: Path, mutant: KafkaMutant
) -> None:
    log = tmp_path / "runs" / "1" / "logs" / "controller-1" / "controller-1.log"
    log.parent.mkdir(parents=True)
    log.write_text("x" * ((1 << 20) - 10) + mutant.announcement + "\n", encoding="utf-8")
    assert effective_servers(mutant, tmp_path) == ["controller-1"]


def test_find_of_a_rule_that_failed_does_not_count(runs: MutantRuns, mutant: KafkaMutant) -> None:
    place = was_run(runs, mutant, broken=[LOSS])
    with (place / "runs" / "1" / "logs" / "broker-2" / "broker-2.log").open("a") as log:
        log.write("org.jboss.byteman.rule.exception.ExecuteException: no such field\n")
    finding = runs.carry_out(mutant, runs.campaign(mutant), 1, ChildProcesses())
    assert finding.detection is Detection.INCONCLUSIVE
    assert finding.why.startswith("a rule failed on broker-2")


def test_changed_rule_or_campaign_is_run_again(
    runs: MutantRuns, mutant: KafkaMutant, tmp_path: Path
) -> None:
    campaign = runs.campaign(mutant)
    place = runs.place(mutant, campaign)
    assert runs.place(mutant, campaign) == place
    other = tmp_path / mutant.name / f"{mutant.name}.btm"
    other.parent.mkdir()
    other.write_text(HEADER + RULE.replace("false", "true"), encoding="utf-8")
    assert runs.place(read(other), campaign) != place
    file = Path(campaign)
    file.write_text(f"# Slow.\n{file.read_text()}cluster: {{system: kafka:3.9.2}}\n")
    assert runs.place(mutant, campaign) == place
    file.write_text("name: d\n", encoding="utf-8")
    assert runs.place(mutant, campaign) != place


def test_findings_of_another_machine_are_not_run_again(
    runs: MutantRuns, mutant: KafkaMutant, tmp_path: Path
) -> None:
    campaign = runs.campaign(mutant)
    was_run(runs, mutant, broken=[LOSS], result=Verdict.FAIL)
    finding = runs.carry_out(mutant, campaign, 1, ChildProcesses())
    was_run(runs, mutant, 2, result=Verdict.INCONCLUSIVE)
    unjudged = runs.carry_out(mutant, campaign, 2, ChildProcesses())
    file = tmp_path / "kept.json"
    write_findings(file, runs.all_findings([mutant]), FINDINGS)
    there = replace(runs, results=tmp_path / "elsewhere", before=read_findings(file, FINDINGS))
    assert there.findings(mutant, campaign) == [finding, unjudged]
    assert there.carry_out(mutant, campaign, 1, ChildProcesses()) == finding
    assert there.all_findings([mutant]) == runs.all_findings([mutant])
    assert not there.place(mutant, campaign).exists(), "nothing was run"
    was_run(there, mutant, 2)
    judged = there.carry_out(mutant, campaign, 2, ChildProcesses())
    assert (unjudged.detection, judged.detection) == (Detection.INCONCLUSIVE, Detection.NOT_FOUND)
    assert there.findings(mutant, campaign) == [finding, judged]


def test_faults_last_as_long_as_asked(runs: MutantRuns, mutant: KafkaMutant) -> None:
    runs.place(mutant, runs.campaign(mutant))
    (copy,) = (runs.results / "campaigns").iterdir()
    assert copy.name == "c-10m.yaml"
    assert "rounds" not in (text := copy.read_text(encoding="utf-8"))
    assert "lasts: 10m" in text
    assert "order: listed" in text


STRICT = {"acks": "all", "min.insync.replicas": 2, "unclean.leader.election.enable": False}
IDEMPOTENT = {**STRICT, "enable.idempotence": True}


def invalid(*errors: str, cell: str = "c") -> Judgement:
    return Judgement(errors={cell: errors}, unknown=())


def unknown(*reasons: str) -> Judgement:
    return Judgement(errors={}, unknown=reasons)


def checked_cell(settings: Mapping[str, Any], **changes: Any) -> VerdictDocument:
    checked = of_cells(Verdict.PASS, cell_result(settings=settings, **changes))
    return VerdictDocument.model_validate(verdict.to_document({"name": "c", "seed": 1}, checked))


@pytest.mark.parametrize(
    ("settings", "counts", "expected"),
    [
        (STRICT, {"lost": 1}, invalid("lost")),
        (STRICT, {"lost": 0, "duplicated": 3}, VALID),
        (IDEMPOTENT, {"lost": 0, "duplicated": 3}, invalid("duplicated")),
        (IDEMPOTENT, {"lost": 0}, VALID),
        (IDEMPOTENT, {"lost": None}, unknown("lost")),
        (
            IDEMPOTENT,
            {"lost": None, "duplicated": 3},
            Judgement(errors={"c": ("duplicated",)}, unknown=("lost",)),
        ),
        ({**STRICT, "min.insync.replicas": 1}, {"lost": 1}, None),
        ({**STRICT, "acks": "1"}, {"lost": 1}, None),
        ({**STRICT, "unclean.leader.election.enable": True}, {"lost": 1}, None),
    ],
)
def test_rule_of_replication_test_counts_its_own_settings_alone(
    settings: dict[str, Any], counts: dict[str, int | None], expected: Judgement | None
) -> None:
    assert ask_replication_test(checked_cell(settings, **counts)) == expected


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([], VALID),
        ([Effect.ALLOWED], VALID),
        ([Effect.ALLOWED, Effect.UNKNOWN], unknown("unknown")),
        ([Effect.INVALID, Effect.ALLOWED, Effect.INVALID], invalid("invalid")),
    ],
)
def test_judgement_of_jepsen_is_that_of_its_worst_errors(
    effects: list[Effect], expected: Judgement
) -> None:
    none: Any = {"key": None, "client": None, "values": (), "offsets": (), "skipped": ()}
    assert judgement("c", [Error(anomaly=one, effect=one, **none) for one in effects]) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("true", unknown("lost or duplicated")),
        ("false", VALID),
        ("null", None),
        ('{"valid": true, "reasons": []}', VALID),
        ('{"valid": false, "reasons": ["lost"]}', invalid("lost", cell="")),
        ('{"valid": null, "reasons": ["lost"]}', unknown("lost")),
    ],
)
def test_finding_of_a_former_version_is_read(
    runs: MutantRuns, mutant: KafkaMutant, stored: str, expected: Judgement | None
) -> None:
    campaign = runs.campaign(mutant)
    kept = runs.place(mutant, campaign) / "seed-1.json"
    kept.parent.mkdir(parents=True)
    text = f'{{"seed": 1, "detection": "not found", "replication_test": {stored}}}'
    kept.write_text(text, encoding="utf-8")
    (finding,) = runs.findings(mutant, campaign)
    assert (finding.replication_test, finding.jepsen) == (expected, None)


def test_jepsen_is_not_started_without_a_cell_for_it(tmp_path: Path) -> None:
    sound_history().write(tmp_path)
    assert ask_jepsen(checked_cell({**IDEMPOTENT, "acks": "1"}), tmp_path, "nowhere") is None


def test_class_path_without_jepsen_is_an_error_that_names_the_run(
    runs: MutantRuns, mutant: KafkaMutant
) -> None:
    asking = replace(runs, jepsen="nowhere")
    place = was_run(asking, mutant, broken=[LOSS], settings=IDEMPOTENT)
    sound_history(IDEMPOTENT).write(place)
    with pytest.raises(InfraError, match=r"seed-1: .*JEPSEN_CLASSPATH.*clojure\.main"):
        asking.carry_out(mutant, asking.campaign(mutant), 1, ChildProcesses())
    (finding,) = asking.findings(mutant, asking.campaign(mutant))
    assert (finding.detection, finding.jepsen) == (Detection.FOUND, None), "the run is not lost"
    assert place.exists()


# --- page -------------------------------------------------------------------------------------


def finding(seed: int, detection: Detection, **changes: Any) -> MutantFinding:
    return MutantFinding(seed=seed, detection=detection, **{"seconds": 300.0, **changes})


def test_time_to_find_includes_the_runs_before() -> None:
    found = summary(
        [
            finding(1, Detection.INCONCLUSIVE, why="busy"),
            finding(2, Detection.NOT_FOUND),
            finding(3, Detection.FOUND, guarantee="commits-kept"),
        ]
    )
    assert words(found) == "found (commits-kept, seed 3, after 15 min)"


@pytest.mark.parametrize(
    ("detections", "says"),
    [
        ([], "not run"),
        ([Detection.NOT_FOUND] * 2, "not found in 2 runs"),
        ([Detection.NO_EFFECT, Detection.NOT_FOUND], "not found in 1 run, no effect in 1 run"),
        (
            [Detection.INCONCLUSIVE, Detection.NOT_FOUND],
            "not found in 1 run, inconclusive in 1 run",
        ),
        ([Detection.NO_EFFECT], "no effect in 1 run"),
        (
            [Detection.NO_EFFECT, Detection.INCONCLUSIVE],
            "inconclusive in 1 run, no effect in 1 run: a \\| b",
        ),
    ],
)
def test_mutant_that_is_not_found_says_why(detections: list[Detection], says: str) -> None:
    runs = [finding(seed, one, why="a | b") for seed, one in enumerate(detections, 1)]
    assert words(summary(runs)) == says


def test_page_counts_only_judged_mutants_by_time(mutant: KafkaMutant) -> None:
    sound = finding(1, Detection.NOT_FOUND, version="1.2", replication_test=VALID)
    unknown = finding(2, Detection.INCONCLUSIVE, replication_test=VALID)
    seen = finding(1, Detection.FOUND, guarantee="commits-kept", replication_test=invalid("lost"))
    found = summary([seen], [sound])
    without = summary([finding(1, Detection.NO_EFFECT, replication_test=invalid("lost"))])
    mutants = {"seen": replace(mutant, name="seen"), mutant.name: mutant}
    summaries = {"seen": found, mutant.name: without}
    text = page("kafka:4.4.0, `c`", {"c": [sound, unknown]}, mutants, summaries)
    assert "kafka:4.4.0, `c`. Ackproof 1.2." in text
    judged = "every guarantee held in 1 run (findings in 0 to 98 % of runs), inconclusive in 1 run"
    says = f"{judged}; `replication_test`: valid, errors in 0 of 2; Jepsen: not asked"
    assert f"- Unmutated, `c`: {says}\n" in text
    assert "| planted | 2 | 1 | 1 | 1 of 1 |  | 1 |" in text
    assert "| fix taken back | 0 | 0 | 0 |  |  | 0 |" in text
    assert "| `seen` | **commits-kept** | 1 | 5 | **lost** |  |" in text
    assert "| `nothing-kept` | no effect in 1 run |  |  |  |  |" in text
    assert text.endswith(f"\n- `nothing-kept`: {mutant.guarantee}; {mutant.needs}.\n")
    assert "- `seen`" not in text, "what was found is no miss"


@pytest.mark.parametrize(
    ("unmutated", "mutated", "row", "share"),
    [
        (VALID, invalid("unseen"), "**unseen**", "1 of 1"),
        (VALID, VALID, "valid", "0 of 1"),
        (invalid("duplicate"), invalid("duplicate"), "duplicate", "0 of 1"),
        (invalid("duplicate"), invalid("duplicate", "unseen"), "duplicate, **unseen**", "1 of 1"),
        (invalid("duplicate"), invalid("duplicate", cell="d"), "**duplicate**", "1 of 1"),
        (invalid("duplicate"), invalid("duplicate", cell=""), "duplicate", "0 of 1"),
        (invalid("duplicate", cell=""), invalid("duplicate", "x"), "duplicate, **x**", "1 of 1"),
        (invalid("duplicate"), invalid("duplicate", "poll-skip"), "duplicate, poll-skip", "0 of 1"),
        (VALID, invalid("poll-skip"), "**poll-skip**", "1 of 1"),
        (invalid("duplicate"), VALID, "valid", "0 of 1"),
        (None, invalid("unseen"), "unseen", ""),
        (unknown("no-writer-of"), invalid("unseen"), "unseen", ""),
        (VALID, unknown("no-writer-of"), "not known: no-writer-of", ""),
        (VALID, None, "", ""),
    ],
)
def test_error_of_another_judge_counts_unless_the_unmutated_release_has_it(
    mutant: KafkaMutant,
    unmutated: Judgement | None,
    mutated: Judgement | None,
    row: str,
    share: str,
) -> None:
    sound = [finding(1, Detection.NOT_FOUND, jepsen=unmutated)]
    found = summary([finding(1, Detection.NOT_FOUND, jepsen=mutated)], sound)
    text = page("c", {"c": sound}, {mutant.name: mutant}, {mutant.name: found})
    assert f"| `nothing-kept` | not found in 1 run |  |  |  | {row} |" in text
    assert f"| planted | 1 | 1 | 0 |  | {share} | 0" in text


def test_error_of_another_judge_on_a_mutant_without_effect_is_no_find_on_others(
    runs: MutantRuns, mutant: KafkaMutant
) -> None:
    other = replace(mutant, name="other")
    lost = invalid("lost")
    campaign = runs.campaign(mutant)
    findings = {
        runs.place(None, campaign): finding(1, Detection.NOT_FOUND, replication_test=VALID),
        runs.place(mutant, campaign): finding(1, Detection.NOT_FOUND, replication_test=lost),
        runs.place(other, campaign): finding(1, Detection.NO_EFFECT, replication_test=lost),
    }
    before = {place.relative_to(runs.results).as_posix(): [one] for place, one in findings.items()}
    runs = replace(runs, before=before)
    alone, together = (
        collected(runs, {one.name: one for one in mutants})[1][mutant.name].others[0]
        for mutants in ([mutant], [mutant, other])
    )
    assert alone == (lost, {"lost"})
    assert together == (lost, set())


def test_overview_has_each_judge_and_each_control() -> None:
    judged = (VALID, invalid("lost"))
    sound = [finding(s, Detection.NOT_FOUND, replication_test=j) for s, j in enumerate(judged)]
    unsure = finding(3, Detection.INCONCLUSIVE)
    seen = finding(1, Detection.FOUND, guarantee="commits-kept", replication_test=VALID)
    summaries = {
        "seen": summary([seen], sound),
        "missed": summary([finding(1, Detection.NOT_FOUND)], sound),
        "without": summary([finding(1, Detection.NO_EFFECT)], sound),
    }
    text = overview("kafka:4.4.0", {"here/c.yaml": [*sound, unsure], "d": []}, summaries)
    assert text.splitlines() == [
        "| [Apache Kafka 4.4.0](docs/kafka-mutants.md) | campaigns | 1 of 2 (1 to 99 %) |",
        "| | `replication_test`, on their histories | 0 of 1 |",
        "| | Jepsen's checker, on their histories |  |",
        "| nothing, in runs of `c` | campaigns | 0 of 2 (0 to 84 %) |",
        "| | `replication_test`, on their histories | 1 of 2 |",
        "| nothing, in runs of `d` | campaigns | not run |",
    ]
    assert "| campaigns | not run |" in overview("kafka:4.4.0", {}, {"unknown": summary([])})


def test_guarantee_that_the_unmutated_release_broke_is_no_find(mutant: KafkaMutant) -> None:
    sound = [
        finding(1, Detection.NOT_FOUND),
        finding(2, Detection.FOUND, guarantee="commits-kept"),
        finding(3, Detection.INCONCLUSIVE),
    ]
    same = finding(1, Detection.FOUND, guarantee="commits-kept")
    other = finding(2, Detection.FOUND, guarantee="no-duplicates")
    text = page("c", {"c": sound}, {mutant.name: mutant}, {mutant.name: summary([same], sound)})
    assert (
        "- Unmutated, `c`: every guarantee held in 1 run (findings in 1 to 99 % of runs), "
        "**commits-kept** broken in 1 run, and no find on mutants, inconclusive in 1 run; "
    ) in text
    assert "| `nothing-kept` | not found in 1 run |" in text
    assert "| planted | 1 | 1 | 0 |" in text
    found = summary([same, other], sound)
    assert words(found) == "found (no-duplicates, seed 2, after 10 min)"


# --- command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["isr-joined-at-onc"], "did you mean isr-joined-at-once?"),
        (["--system", "bundled"], "mutants are made of one release"),
        (["--system", "kafka:3.9.2..kafka:4.4.0"], "mutants are made of one release"),
        (["--within", "10 parsecs"], "or all for the whole campaign"),
        (["--campaign", "nightlykraft"], "did you mean nightly-kraft?"),
        (["--seeds", "-1"], "-1 is not in the range"),
    ],
)
def test_bad_usage_is_refused_with_a_remedy(arguments: list[str], says: str) -> None:
    outcome = CliRunner().invoke(cli, ["mutants", *arguments])
    assert outcome.exit_code == 2, outcome.output
    assert says in " ".join(outcome.output.split())


def test_list_has_the_description_of_each_mutant() -> None:
    outcome = CliRunner().invoke(cli, ["mutants", "--list"])
    assert outcome.exit_code == 0
    assert all(f"{one.name}: {one.breaks}\n" in outcome.output for one in catalogue().values())
    assert UNMUTATED not in outcome.output
