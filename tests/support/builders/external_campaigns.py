"""Campaign files for a cluster that was there before."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

COMMANDS = {word: ["hand", word] for word in ("stop", "start", "kill", "pause", "resume")}
SERVERS = {f"broker-{n}": {"commands": COMMANDS} for n in (1, 2, 3)}
SSH = {"address": "kafka-1", "user": "admin"}
HOSTS = {
    name: {**one, "ssh": {"address": f"kafka-{name[-1]}", "user": "admin"}}
    for name, one in SERVERS.items()
}
IN_PODS = {"kubernetes": {"namespace": "kafka", "selector": "app=kafka"}}
KILL = {"fault": "kill", "target": "leader(acks-all-minisr-2, any)"}
CREATE = {"fault": "create-topic", "target": "all"}
TOPIC = "ackproof-00000007-acks-all-minisr-2"
WITH_AGENTS = {
    "agent": True,
    "servers": {
        f"broker-{n}": {"systemd": "kafka", "ssh": {"address": f"kafka-{n}", "user": "admin"}}
        for n in (1, 2, 3)
    },
}


def written(tmp_path: Path, *faults, cells=(), cluster=(), workload=(), **external_section) -> Path:
    document = {
        "name": "mine",
        "seed": 7,
        "cluster": {
            "system": "external",
            "backend": "here",
            "external": {"bootstrap.servers": "kafka-1:9092", **external_section},
            **dict(cluster),
        },
        "cells": {"acks": "all", "min.insync.replicas": 2, **dict(cells)},
        "workload": {"rate": 10, **dict(workload)},
        "faults": list(faults),
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def voters(quorum: str = "1@kafka-1:9093", **further) -> dict[str, object]:
    return {"controllers": {"quorum.voters": quorum, **further}}


def run(path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.harness", *arguments],
        cwd=path.parent,
        env={
            **os.environ,
            "ACKPROOF_STATE_DIRECTORY": str(path.parent / "state"),
            "XDG_STATE_HOME": str(path.parent / "known"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
