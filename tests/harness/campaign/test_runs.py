"""Plans of a campaign: a pure function of it, and all of it is in the manifest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import DisksSpec
from ackproof.harness.campaign.model.workload import described
from ackproof.harness.campaign.plan.needs import needs_of
from ackproof.harness.campaign.plan.runs import HARNESS_TABLES, manifest_of, runs_of
from ackproof.harness.campaign.plan.scheduler import run_seed
from ackproof.harness.campaign.problems.places import lacking_capabilities
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.history import manifest
from ackproof.history.names import CONSUMPTION
from ackproof.infra.api.interface import Capability
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import ClientNode

ROOT = Path(__file__).parents[3]
ROOMS = ("history", "config", "infra", "nemesis", "workloads", "checkers", "harness", "plugins")


def planned(campaign: Campaign, seed: int = 5) -> manifest.Manifest:
    resolved = campaign.resolved(seed=seed)
    return manifest_of(resolved, runs_of(resolved))


def test_same_seed_yields_the_same_manifest(campaign: Campaign) -> None:
    assert planned(campaign) == planned(campaign)
    assert planned(campaign) != planned(campaign, seed=6)


def test_planned_campaign_names_the_system_under_test(campaign_file) -> None:
    assert planned(load(campaign_file({}))).system == "bundled"
    assert planned(load(campaign_file({"cluster.system": "kafka:3.9.1"}))).system == "kafka:3.9.1"


def test_manifest_reads_back_unchanged(campaign_file, tmp_path: Path) -> None:
    given = {"cells.topic": {"segment.bytes": [100000, 200000]}, "cluster.brokers": [3, 4]}
    written = planned(load(campaign_file(given)))
    written.write(tmp_path)
    assert manifest.read(tmp_path) == written


def test_planned_run_has_every_cell_fault_and_writer(campaign: Campaign) -> None:
    (run,) = planned(campaign).runs
    assert [cell.cell.name for cell in run.cells][:2] == ["acks-0.minisr-1", "acks-0.minisr-2"]
    assert {fault.fault for fault in run.faults} == {"kill", "pause"}
    assert [fault.fault_id for fault in run.faults] == [1, 2]
    writers = [(one.table, one.writer, one.node) for one in run.writers]
    senders = [(one.cell, one.node) for one in run.writers if one.table == "sends"]
    assert senders == [(cell.cell.name, "client-1") for cell in run.cells]
    assert ("log", "final-read", "client-1") in writers
    assert [table for table, writer, node in writers if (writer, node) == ("harness", "harness")]
    assert {table for table, writer, _ in writers if writer == "harness"} == set(HARNESS_TABLES)
    log = next(one for one in run.writers if one.table == "log")
    assert len(log.partitions) == 3 * len(run.cells)
    assert (run.session_timeout_ms, run.replica_lag_ms, run.recovery_ms) == (2000, 30000, 60000)


def test_every_cluster_is_a_run_as_often_as_asked(campaign_file) -> None:
    given = {"cluster.brokers": [3, 4], "runs": 2}
    given["cluster.properties.replica~lag~time~max~ms"] = [2000, 4000]
    runs = planned(load(campaign_file(given))).runs
    assert [run.number for run in runs] == list(range(1, 9))
    assert [dict(run.cluster) for run in runs[:4]] == [
        {"brokers": 3, "replica.lag.time.max.ms": 2000},
        {"brokers": 3, "replica.lag.time.max.ms": 4000},
        {"brokers": 4, "replica.lag.time.max.ms": 2000},
        {"brokers": 4, "replica.lag.time.max.ms": 4000},
    ]
    assert [run.replica_lag_ms for run in runs] == [2000, 4000] * 4
    assert {run.seed for run in runs[:4]} == {run_seed(5, 1)}, "what differs is what is swept"
    assert {run.seed for run in runs[4:]} == {run_seed(5, 2)}
    assert runs[0].faults == runs[3].faults


def test_a_cell_that_is_alone_has_a_run_of_its_own_under_the_same_faults(campaign_file) -> None:
    kill = {"fault": "kill", "target": "leader(any, any)", "hold": ["1s", "9s"]}
    together = load(campaign_file({"faults": [kill], "runs": 2}))
    alone = load(campaign_file({"faults": [kill], "runs": 2, "cells.alone": True}))
    runs, apart = planned(together).runs, planned(alone).runs
    cells = [one.cell for one in runs[0].cells]
    assert [[one.cell for one in run.cells] for run in apart] == [[cell] for cell in cells * 2]
    assert [run.number for run in apart] == list(range(1, 2 * len(cells) + 1))
    assert [run.seed for run in apart] == [r.seed for r in runs for _ in cells]
    times = [[(one.start_ms, one.hold_ms) for one in run.faults] for run in apart]
    assert times[: len(cells)] == [times[0]] * len(cells)
    for run in apart:
        (cell,) = (one.cell for one in run.cells)
        assert {writer.cell for writer in run.writers} <= {cell.name, None}
        (fault,) = run.faults
        assert cell.topic in fault.target


def test_each_run_has_one_of_the_clusters(campaign_file) -> None:
    campaign = load(campaign_file({"cluster.brokers": [3, 5], "cluster.zookeepers": [1, 3]}))
    clusters = [run.cluster for run in runs_of(campaign.resolved(seed=1))]
    assert [(one.brokers, one.zookeepers) for one in clusters] == [(3, 1), (3, 3), (5, 1), (5, 3)]
    largest = campaign.cluster.largest
    assert (largest.brokers, largest.zookeepers) == (5, 3)


COMPARED = {
    "plain": {},
    "eager": {"ackproof.a": "x", "ackproof.b": 1},
    "lazy": {"ackproof.a": "x", "ackproof.b": 2},
}


def test_clusters_that_are_compared_are_no_cross_product(campaign_file) -> None:
    campaign = load(campaign_file({"cluster.compare": COMPARED, "cluster.brokers": [3, 4]}))
    runs = runs_of(campaign.resolved(seed=1))
    assert [dict(run.swept) for run in runs] == [
        {"cluster": name, "brokers": brokers} for name in COMPARED for brokers in (3, 4)
    ]
    for run in runs:
        own = {k: v for k, v in run.cluster.properties.items() if k.startswith("ackproof.")}
        assert own == COMPARED[run.swept["cluster"]]
    assert campaign.cluster.size == len(runs)


def test_clusters_that_are_compared_meet_the_same_faults_at_the_same_times(campaign_file) -> None:
    """Test the plan: fault, target, time, duration, and the seed for open choices of the target."""
    faults = [
        {"fault": "kill", "target": "leader(acks-1-minisr-1, any)", "at": ["5s", "9s"]},
        {"fault": "isolate", "target": "one", "hold": ["2s", "9s"]},
        {"fault": "pause", "target": "zookeeper"},
    ]
    file = campaign_file({"cluster.compare": COMPARED, "faults": faults, "runs": 2})
    runs = runs_of(load(file).resolved(seed=3))
    first, second = runs[:3], runs[3:]
    assert [run.swept["cluster"] for run in first] == list(COMPARED)
    assert first[0].faults == first[1].faults == first[2].faults
    assert second[0].faults == second[1].faults == second[2].faults
    assert first[0].faults != second[0].faults, "each round draws again"


def test_a_cluster_that_is_compared_can_be_expected_to_lose(campaign_file) -> None:
    expect = [{"where": {"cluster": "lazy", "acks": "all"}, "verdict": "fail"}]
    given = {"cluster.compare": COMPARED, "expect": expect}
    runs = planned(load(campaign_file(given))).runs
    assert [sorted(c.cell.name for c in run.cells if c.expect) for run in runs] == [
        [],
        [],
        ["acks-all.minisr-1", "acks-all.minisr-2"],
    ]


def test_a_campaign_that_compares_comes_back_from_its_copy(campaign_file, tmp_path: Path) -> None:
    campaign = load(campaign_file({"cluster.compare": COMPARED})).resolved(seed=1)
    copy = tmp_path / "copy.yaml"
    copy.write_text(campaign.to_yaml(), encoding="utf-8")
    again = load(copy)
    assert again == campaign
    assert list(again.cluster.compare) == list(COMPARED), "in the order of the file"


@pytest.mark.parametrize("file", sorted((ROOT / "campaigns").glob("*.yaml")), ids=lambda f: f.stem)
def test_the_campaigns_that_come_along_are_right(file: Path) -> None:
    check(file)


def test_both_ways_of_coordinating_meet_the_same_faults() -> None:
    campaign = load(ROOT / "campaigns" / "coordination.yaml").resolved(seed=1)
    controller, printed, fenced = runs_of(campaign)
    properties = "ackproof.coordination", "ackproof.coordination.variant"
    assert [
        [run.cluster.properties.get(name) for name in properties] for run in runs_of(campaign)
    ] == [
        ["controller", None],
        ["leader", "printed"],
        ["leader", "fenced"],
    ]
    assert controller.faults == printed.faults == fenced.faults
    assert {fault.gap_ms for fault in controller.faults} == {None}, "each has a time of its own"
    assert controller.failovers == printed.failovers == fenced.failovers
    assert [one.partitions for one in controller.failovers] == [10, 100, 1000]
    assert {one.cell.name: one.expect for one in printed.cells if one.expect} == {
        **dict.fromkeys(("acks-1.minisr-1", "acks-1.minisr-2"), ("fail", "not-guaranteed", "pass")),
        "acks-all.minisr-1": ("fail",),
        "acks-all.minisr-2": ("fail", "pass"),
    }
    assert not any(cell.expect for run in (controller, fenced) for cell in run.cells)


def test_expected_verdicts_are_planned_for_each_cell(campaign_file) -> None:
    expect = [
        {"verdict": "pass"},
        {"where": {"acks": 1}, "verdict": "fail"},
        {"where": {"acks": "all"}, "verdict": ["fail", "pass"]},
        {"where": {"brokers": 4, "min.insync.replicas": 2}, "verdict": ["inconclusive"]},
    ]
    given = {"cluster.brokers": [3, 4], "expect": expect}
    first, second = planned(load(campaign_file(given))).runs
    assert {c.cell.name: c.expect for c in first.cells} == {
        "acks-0.minisr-1": ("pass",),
        "acks-0.minisr-2": ("pass",),
        "acks-1.minisr-1": ("fail",),
        "acks-1.minisr-2": ("fail",),
        "acks-all.minisr-1": ("fail", "pass"),
        "acks-all.minisr-2": ("fail", "pass"),
    }
    later = {c.expect for c in second.cells if c.cell.min_insync_replicas == 2}
    assert later == {("inconclusive",)}


@pytest.mark.parametrize("nodes", [["client-1"], ["client-1", "client-2", "client-3"]])
def test_the_manifest_names_the_clients_that_will_be_started(campaign_file, nodes) -> None:
    """Whatever these are, and wherever: each of them writes something, and no other client writes
    of a cell."""
    groups = [{"name": "a", "members": 3}, {"name": "b", "members": 1, "delivery": "auto-commit"}]
    given = {"workload.producers": 2, "workload.readers": 1, "workload.groups": groups}
    given["cluster.clients"] = len(nodes)
    campaign = load(campaign_file(given))
    (run,) = planned(campaign).runs
    for one in run.cells:
        load_of = campaign.workload.load_of(one.cell)
        started = WORKLOADS[campaign.workload.kind].clients(
            one.cell, load_of, bootstrap_servers="", places=[place(name) for name in nodes]
        )
        written = {w.client: w.node for w in run.writers if w.cell == one.cell.name}
        assert written == {client.name: client.node for client in started}
        assert len(written) == 7
    tables = {writer.table for writer in run.writers}
    assert tables >= {"sends", *CONSUMPTION - {"deliveries"}}


def test_cells_with_the_same_settings_of_producers_share_them(campaign_file) -> None:
    given = {
        "workload.producers": 2,
        "workload.producers~shared": True,
        "cells.acks": ["1", "all"],
        "cells.min~insync~replicas": [1, 2],
    }
    campaign = load(campaign_file(given))
    (run,) = planned(campaign).runs
    cells = [one.cell for one in run.cells]
    loads = campaign.workload.loads_of(cells)
    started = [
        client
        for cell in cells
        for client in WORKLOADS["produce"].clients(
            cell, loads[cell.name], bootstrap_servers="", places=[place("client-1")]
        )
    ]
    assert [(client.cell, client.name) for client in started] == [
        (f"acks-{acks}.minisr-1", f"producer-acks-{acks}-minisr-1-{number}")
        for acks in ("1", "all")
        for number in (0, 1)
    ]
    sends = {w.writer: (w.client, w.cell) for w in run.writers if w.table == "sends"}
    assert sends == {
        f"producer-acks-{acks}-minisr-{isr}-{number}": (
            f"producer-acks-{acks}-minisr-1-{number}",
            f"acks-{acks}.minisr-{isr}",
        )
        for acks in ("1", "all")
        for isr in (1, 2)
        for number in (0, 1)
    }
    assert "2 cells share their producers; 2 cells share" in described(campaign.workload, cells)


def test_producer_that_waits_for_each_record_is_not_shared(campaign_file) -> None:
    given = {"workload.producers~shared": True, "cells.min~insync~replicas": [1, 2]}
    campaign = load(campaign_file(given | {"cells.producer~type": "sync"}))
    assert not campaign.workload.shared_producers(expand(campaign.cells))


def place(node: str) -> ClientNode:
    return ClientNode(node=node, history="", progress="")


def test_nothing_is_expected_where_nothing_is_said(campaign: Campaign) -> None:
    assert not any(cell.expect for run in planned(campaign).runs for cell in run.cells)


def test_a_campaign_that_breaks_nothing_is_a_baseline(campaign: Campaign, campaign_file) -> None:
    assert not planned(campaign).baseline
    found = planned(load(campaign_file({"faults": []})))
    assert found.baseline
    assert found.runs[0].faults == ()


_ONE_LINE = """    replication_factor = Setting("""
_NEW_SETTING = """    linger_ms = Setting(
        name="linger.ms", parse=_count, scope=Scope.PRODUCER, default=lambda _: 5, short="linger"
    )
"""
_SEE_IT_THROUGH = """
import sys
from pathlib import Path
from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.harness import report
from ackproof.harness.campaign import clients
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of

file, out = Path(sys.argv[1]), Path(sys.argv[2])
campaign = validation.load(file).resolved(seed=1)
validation.check(file)
runs = runs_of(campaign)
manifest_of(campaign, runs).write(out)
(out / "campaign.yaml").write_text(campaign.to_yaml())
cells = [one.cell for one in runs[0].cells]
for cell in cells:
    print(cell.name, clients.properties_of_producer(cell)["linger.ms"])
numbers = dict.fromkeys(
    ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered"), 0
)
results = [
    CellResult(run=1, settings=cell, guarantees=(), verdict=Verdict.PASS,
               reasons=(), **numbers)
    for cell in cells
]
result = CampaignResult(verdict=Verdict.PASS, cells=tuple(results), anomalies={}, findings=())
from ackproof.checkers.checks.rows import ANOMALIES
import pyarrow.parquet as pq
pq.write_table(ANOMALIES.empty_table(), out / "anomalies.parquet")
report.write(out, result)
assert report.load(out) == result
report.write(out, result)
"""


def test_a_new_setting_is_one_line_in_one_file(campaign_file, tmp_path: Path) -> None:
    """In a copy of the sources: the campaign file knows it, names of cells and topics, the
    producer, the manifest, verdict.json and the report have it."""
    copy, out = tmp_path / "copy", tmp_path / "out"
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copytree(ROOT / "ackproof", copy / "ackproof", symlinks=True)
    cell = copy / "history" / "cell.py"
    assert cell.read_text().count(_ONE_LINE) == 1
    cell.write_text(cell.read_text().replace(_ONE_LINE, _NEW_SETTING + _ONE_LINE))
    (out / "runs").mkdir(parents=True)
    file = campaign_file({"cells.linger~ms": [1, 50], "cells.acks": "all"})
    file.write_text(file.read_text().replace("acks-1-minisr-1", "acks-all-minisr-1-linger-50"))
    seen = subprocess.run(
        [sys.executable, "-c", _SEE_IT_THROUGH, str(file), str(out)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert seen.returncode == 0, seen.stderr
    assert "acks-all.minisr-2.linger-50 50" in seen.stdout.splitlines()
    for name in ("manifest.json", "verdict.json"):
        assert '"linger.ms": 50' in (out / name).read_text()
    assert "linger.ms" in (out / "report.html").read_text().partition("<h2>Cells</h2>")[2]
    wrong = campaign_file({"cells.linger~ms": "soon"})
    refused = subprocess.run(
        [sys.executable, "-m", "ackproof.harness", "run", str(wrong)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "cells.linger.ms: a whole number from 1, not 'soon'" in refused.stderr


def again(campaign: Campaign) -> Campaign:
    """Return the campaign from the copy that a run leaves behind."""
    return Campaign.model_validate_json(json.dumps(yaml.safe_load(campaign.to_yaml())))


class TestDisks:
    """Tests of the brokers' own disks: provided where a planned fault needs them, or the campaign
    asks for them."""

    POWER: ClassVar[dict[str, object]] = {"fault": "power-failure", "target": "broker-1"}

    def specs(self, campaign: Campaign) -> list[DisksSpec | None]:
        return [run.cluster.disks for run in runs_of(campaign.resolved(seed=5))]

    def test_clusters_without_clock_faults_get_no_clocks(self, campaign: Campaign) -> None:
        assert self.specs(campaign) == [None]

    def test_fault_that_needs_disks_adds_them_to_the_cluster(self, campaign_file) -> None:
        given = {"faults": [self.POWER], "cluster.brokers": [3, 4]}
        assert self.specs(load(campaign_file(given))) == [DisksSpec()] * 2

    def test_as_the_campaign_says(self, campaign_file) -> None:
        said = {"per.broker": 2, "megabytes": 64}
        wanted = DisksSpec.model_validate(said)
        for faults in ([], [self.POWER]):
            campaign = load(campaign_file({"faults": faults, "cluster.disks": said}))
            assert self.specs(campaign) == [wanted]
            assert again(campaign).cluster.disks == wanted, "it reads back"

    @pytest.mark.parametrize("megabytes", [0, 31, "64", 1 << 21])
    def test_a_size_that_cannot_be_is_refused(self, campaign_file, megabytes: object) -> None:
        with pytest.raises(CampaignRefused, match=r"cluster\.disks\.megabytes"):
            load(campaign_file({"cluster.disks": {"megabytes": megabytes}}))

    def test_missing_capability_is_refused(self, campaign_file) -> None:
        file = check(campaign_file({"cluster.disks": {}, "faults": [self.POWER]}))
        with pytest.raises(CampaignRefused) as refused:
            file.refuse(lacking_capabilities(file.campaign, frozenset({Capability.SIGNALS})))
        message = str(refused.value)
        assert "cluster.disks: needs lose-unsynced-writes, but the backend local" in message
        assert "faults[0].fault: power-failure needs lose-unsynced-writes" in message
        assert Capability.LOSE_UNSYNCED_WRITES in needs_of(file.campaign)


class TestClocks:
    """Servers are started under fake clocks where a planned fault needs them, and nowhere else."""

    STEP: ClassVar[dict[str, object]] = {"fault": "step-clock", "target": "broker-1"}

    def test_fault_that_sets_clocks_adds_them_to_the_cluster(
        self, campaign: Campaign, campaign_file
    ) -> None:
        wanted = load(campaign_file({"faults": [self.STEP]}))
        for planned_so, clocks in ((campaign, False), (wanted, True)):
            runs = runs_of(planned_so.resolved(seed=5))
            assert [run.cluster.clocks for run in runs] == [clocks]

    def test_clocks_cannot_be_set_in_the_file(self, campaign_file) -> None:
        with pytest.raises(CampaignRefused, match=r"cluster\.clocks"):
            load(campaign_file({"cluster.clocks": True}))

    def test_missing_capability_is_refused(self, campaign_file) -> None:
        file = check(campaign_file({"faults": [self.STEP]}))
        with pytest.raises(CampaignRefused, match="step-clock needs fake-clocks"):
            file.refuse(lacking_capabilities(file.campaign, frozenset({Capability.SIGNALS})))

    def test_unprovable_clock_step_is_refused_with_its_position(self, campaign_file) -> None:
        step = {**self.STEP, "parameters": {"offset_ms": 5}}
        with pytest.raises(
            CampaignRefused, match="less than 100 ms cannot be distinguished from the true time"
        ):
            check(campaign_file({"faults": [step]}))
