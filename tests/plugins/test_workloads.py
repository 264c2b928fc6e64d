"""Workloads of plug-ins have parameters, and are planned and refused like the built-in ones."""

import json
from pathlib import Path

import pytest

from ackproof.harness.campaign.docs import schema
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import ClientNode, Parameters, as_workload
from tests.support.builders.installations import Install

GROUP = "ackproof.workloads"
PLACE = ClientNode(node="client-1", history="history", progress="progress")
SOURCE = """
from dataclasses import replace
from pydantic import Field
from ackproof.workloads.interface import Parameters
from ackproof.workloads.produce import Produce

class Sparse(Parameters):
    factor: int = Field(default=10, ge=1, description="how much slower it sends")

class Slow(Produce):
    name = "slow"
    summary = "as produce, so many times slower"
    parameters = Sparse

    def clients(self, cell, load, **how):
        slower = replace(load, rate=load.rate / load.parameters.factor)
        return super().clients(cell, slower, **how)

OWN = Slow()
"""
CAMPAIGN = """
name: own
cells: {{acks: all, min.insync.replicas: 1}}
workload: {{rate: 100, {workload}}}
faults: []
"""


def campaign(directory: Path, workload: str) -> Path:
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN.format(workload=workload), encoding="utf-8")
    return file


def rate_of(campaign: Campaign) -> object:
    """Return the rate that the producer of the cell is told."""
    (cell,) = expand(campaign.cells)
    load = campaign.workload.load_of(cell)
    (client,) = WORKLOADS[campaign.workload.kind].clients(
        cell, load, bootstrap_servers="b:1", places=[PLACE]
    )
    return client.specification["rate"]


def test_plugin_workload_receives_its_parameters(install: Install, tmp_path: Path) -> None:
    install("owner", SOURCE, group=GROUP, slow="OWN", version="2.3")
    assert [*WORKLOADS] == ["produce", "transactions", "slow"]
    found = check(campaign(tmp_path, "kind: slow, parameters: {factor: 4}")).campaign
    assert rate_of(found) == 25
    assert rate_of(check(campaign(tmp_path, "kind: slow")).campaign) == 10
    resolved = found.resolved(seed=1)
    (run,) = manifest_of(resolved, runs_of(resolved)).runs
    assert run.plugins == {"owner": "2.3"}


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("kind: slwo", "workload.kind: unknown workload 'slwo'; did you mean slow?"),
        ("kind: slow, parameters: {factor: 0}", "workload.parameters.factor: "),
        ("kind: slow, parameters: {fator: 2}", "did you mean factor?"),
        ("kind: produce, parameters: {factor: 2}", "workload.parameters.factor: unknown key"),
        ("parameters: {factor: 2}", "workload.parameters.factor: unknown key"),
    ],
)
def test_mistake_in_a_workload_is_refused(
    install: Install, tmp_path: Path, workload: str, says: str
) -> None:
    install("owner", SOURCE, group=GROUP, slow="OWN")
    with pytest.raises(CampaignRefused) as refused:
        check(campaign(tmp_path, workload))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("OWN = 5", "it has no name, summary, transactional, parameters, writers, clients"),
        (SOURCE + "OWN = Slow", "Slow is a class; register an instance of it"),
        (SOURCE + "OWN.name = 'x'", "registered as slow, but its name is 'x'"),
        (SOURCE + "OWN.summary = ''", "its summary must be one line of text"),
        (SOURCE + "OWN.clients = 5", "clients: must be a method"),
        (SOURCE + "OWN.transactional = None", "its transactional must be True or False"),
        (SOURCE + "OWN.parameters = dict", "its parameters must be a subclass of"),
        (
            SOURCE + "class Bare(Parameters):\n    n: int\nOWN.parameters = Bare",
            "its parameter n has no default",
        ),
        (
            SOURCE + "class Bare(Parameters):\n    n: int = 1\nOWN.parameters = Bare",
            "its parameter n has no description",
        ),
    ],
)
def test_workload_that_cannot_be_used_is_refused_with_its_plugin(
    install: Install, tmp_path: Path, source: str, says: str
) -> None:
    install("owner", source, group=GROUP, slow="OWN")
    with pytest.raises(CampaignRefused) as refused:
        check(campaign(tmp_path, "kind: slow"))
    assert "the workload slow of the plug-in owner 1.0 cannot be used: " in str(refused.value)
    assert says in str(refused.value)


def test_campaign_of_a_run_is_read_without_its_plugin(tmp_path: Path) -> None:
    found = load(campaign(tmp_path, "kind: slow, parameters: {factor: 4}"))
    assert found.workload.kind == "slow"
    (cell,) = expand(found.cells)
    assert found.workload.load_of(cell).parameters == Parameters()


def test_schema_has_the_parameters_of_a_plugin_s_workload(install: Install) -> None:
    install("owner", SOURCE, group=GROUP, slow="OWN")
    schema.cache_clear()
    section = json.loads(json.dumps(schema()))["$defs"]["WorkloadSpec"]
    schema.cache_clear()
    assert section["properties"]["kind"]["enum"] == ["produce", "transactions", "slow"]
    (case,) = section["allOf"]
    assert case["if"]["properties"]["kind"]["const"] == "slow"
    assert "factor" in case["then"]["properties"]["parameters"]["properties"]


@pytest.mark.parametrize("name", WORKLOADS.built_in)
def test_built_in_workload_passes_the_check_of_plugins(name: str) -> None:
    assert as_workload(WORKLOADS[name], name).name == name
