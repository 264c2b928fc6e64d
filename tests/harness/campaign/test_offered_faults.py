"""Offers of faults by backend: backends and campaigns behave as the catalogue says."""

import os
import re
from pathlib import Path

import pytest
import yaml

from ackproof.harness.campaign.backends import BACKENDS, BackendContext
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.problems import places
from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.infra.api.interface import Capability
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Aim

COMMANDS = {word: ["hand", word] for word in ("stop", "start", "kill", "pause", "resume")}
SERVERS = {
    f"broker-{n}": {"commands": COMMANDS, "ssh": {"address": f"kafka-{n}", "user": "admin"}}
    for n in (1, 2, 3, 4)
}
IN_PODS = {
    Aim.KUBERNETES_NODES: {
        "kubernetes": {"namespace": "kafka", "selector": "app=kafka", "image": "node"}
    },
    Aim.PODS: {"kubernetes": {"namespace": "kafka", "strimzi": "mine", "image": "node"}},
}
TOPIC = "acks-all-minisr-2"


def test_every_place_has_an_answer_for_every_fault() -> None:
    assert places.PLACES == ("local", "docker", "ssh", "kubernetes", "your cluster")
    for fault in FAULTS.values():
        for place in places.PLACES:
            assert re.match(r"yes$|no: |where ", str(places.offer(fault, place)))


@pytest.mark.parametrize(
    ("fault", "place", "word"),
    [
        ("kill", "local", "yes"),
        (
            "slow-disk",
            "local",
            "where ext4 can be mounted from a file, and Ackproof runs as root; the kernel",
        ),
        ("slow-disk", "docker", "no: /sys is read-only there"),
        ("step-clock", "docker", "yes"),
        ("slow-disk", "kubernetes", "no: /sys is read-only in pods"),
        ("starve-cpu", "kubernetes", "no: control groups are read-only in pods"),
        ("isolate", "kubernetes", "where the cluster admits pods with NET_ADMIN"),
        ("step-clock", "kubernetes", "yes"),
        ("isolate", "ssh", "where nft works"),
        ("isolate", "your cluster", "where the agent is beside the brokers, and nft works there"),
        ("disk-full", "your cluster", "where it is configured how to kill, start; the agent"),
        ("power-failure", "your cluster", "no: it is not for system: external: it needs disks"),
        ("replace", "your cluster", "no: it is for clusters that Ackproof deploys"),
        ("pause", "your cluster", "where it is configured how to pause, resume"),
        ("alter-min-isr", "your cluster", "yes"),
        ("drain", "kubernetes", "no: it is for your own cluster in pods"),
        ("drain", "your cluster", "where cluster.external.kubernetes finds the brokers' pods"),
        ("node-failure", "your cluster", "where cluster.external.kubernetes finds the brokers' p"),
    ],
)
def test_a_word(fault: str, place: str, word: str) -> None:
    assert str(places.offer(FAULTS[fault], place)).startswith(word)


@pytest.mark.parametrize("place", [name for name in places.PLACES if name in BACKENDS])
def test_backend_describes_each_capability_once(place: str) -> None:
    backend = BACKENDS[place]
    assert not backend.never.keys() & backend.where.keys()
    assert Capability.SIGNALS not in {*backend.never, *backend.where}


@pytest.mark.integration
def test_missing_capability_of_this_machine_is_reported_with_its_reason() -> None:
    """And what is offered wherever it is, is there."""
    told: list[str] = []
    place = BACKENDS["local"]
    site = BackendContext(cluster=ClusterSpec(), tell=told.append, needs=frozenset(Capability))
    lacking = set(Capability) - place.capabilities(site)
    lacking -= place.never.keys()
    assert lacking <= place.where.keys()
    assert all(any(one in line for line in told) for one in lacking), told
    if os.geteuid() == 0:
        assert Capability.LIMIT_CPU not in lacking, told


def external(tmp_path: Path, fault: str) -> Path:
    aimed = {"links": "broker-1 -> broker-2", "partitions": f"partition({TOPIC}, 0)"}
    aimed |= {"replicas of partitions": f"topic({TOPIC})"}
    aimed |= {"topics": f"topic({TOPIC})", "clients": "clients"}
    entry = {"fault": fault, "target": aimed.get(FAULTS[fault].aim.value, "broker-1")}
    if fault == "crash-client":
        entry["parameters"] = {}
    cluster = {
        "system": "external",
        "backend": "here",
        "brokers": 4,
        "external": {
            "bootstrap.servers": "kafka-1:9092",
            **IN_PODS.get(FAULTS[fault].aim, {"servers": SERVERS}),
            "agent": True,
            "controllers": {"quorum.voters": "1@kafka-1:9093"},
        },
    }
    document = {
        "name": "mine",
        "cluster": cluster,
        "cells": {"acks": "all", "min.insync.replicas": 2, "replication.factor": 3},
        "workload": {"rate": 10},
        "faults": [entry],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("fault", FAULTS)
def test_external_cluster_refuses_the_faults_that_the_catalogue_marks(
    tmp_path: Path, fault: str
) -> None:
    refused: list[str] = []
    try:
        check(external(tmp_path, fault))
    except CampaignRefused as refusal:
        refused = [one.reason for one in refusal.problems if one.field == "faults[0].fault"]
    word = places.offer(FAULTS[fault], places.OWN_CLUSTER).refused
    instead = "; commands of your own can take its place (fault: command)"
    told = [] if word is None else [f"{fault}{word.removeprefix('it')}{instead}"]
    assert refused == told
