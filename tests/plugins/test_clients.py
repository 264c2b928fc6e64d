"""Client libraries of plug-ins are named, checked and refused like the built-in ones."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.history.cell import LIBRARIES, Cell
from ackproof.infra.api.interface import InfraError
from ackproof.infra.clients import programs
from ackproof.infra.clients.programs import CLIENTS, as_client
from ackproof.testing.clients import _Told, check_client
from ackproof.testing.memory.servers import MemoryNode
from ackproof.testing.trials import NotConforming
from tests.support.builders.installations import Install

GROUP = "ackproof.clients"
SOURCE = """
from dataclasses import replace
from ackproof.infra.clients.programs import CLIENTS, Client
OWN = Client(name="own", summary="x", command=lambda node: ["own-program", node.name])
def broken(*_):
    return 1 // 0
"""
TINY = Path(__file__).parents[1] / "support" / "fakes" / "tiny_program.py"
AIOKAFKA = "ackproof.workloads.foreign.aiokafka_program"
NODE = MemoryNode("client-1", "10.0.0.9")


def test_client_of_a_plugin_is_in_the_table_after_the_built_in_ones(install: Install) -> None:
    install("owner", SOURCE, group=GROUP, own="OWN", version="2.3")
    assert [*CLIENTS] == [*LIBRARIES, "own"]
    assert str(CLIENTS.plugin("own")) == "owner 2.3"
    assert programs.command("own", NODE) == ("own-program", "client-1")
    assert programs.artifact("own") is programs.missing("own") is None


def test_history_of_a_client_is_read_without_its_plugin() -> None:
    cell = Cell(name="a", topic="a", settings={"acks": "all", "client": "own"})
    assert "own" not in CLIENTS
    assert (cell.client, cell.max_in_flight) == ("own", 5)


@pytest.mark.parametrize("name", CLIENTS.built_in)
def test_built_in_client_passes_the_check_of_plugins(name: str) -> None:
    assert as_client(CLIENTS[name], name).name == name


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("OWN = 5", "it is not an instance of ackproof.infra.clients.programs.Client"),
        (
            SOURCE + "OWN = replace(OWN, name='x')",
            "registered as own, but its name is 'x'",
        ),
        (SOURCE + "OWN = replace(OWN, summary='a\\nb')", "its summary must be one line of text"),
        (SOURCE + "OWN = replace(OWN, command=['own'])", "command: must be a function"),
        (SOURCE + "OWN = replace(OWN, idempotence=1)", "its idempotence must be True or False"),
        (SOURCE + "OWN = replace(OWN, protocol=3)", "its protocol must be 1 or 2"),
        (SOURCE + "OWN = replace(OWN, lacks=['acks'])", "its lacks must be a mapping"),
    ],
)
def test_client_that_cannot_be_used_is_refused_with_its_plugin(
    install: Install, source: str, says: str
) -> None:
    install("owner", source, group=GROUP, own="OWN")
    assert "own" not in CLIENTS
    assert says in str(CLIENTS.refusal("own"))
    with pytest.raises(NotConforming, match=r"plug-in owner 1\.0"):
        check_client("own")


def test_client_of_version_1_is_refused_keys_and_tombstones(
    install: Install, tmp_path: Path
) -> None:
    install(
        "owner",
        SOURCE.replace("OWN = Client(", "OWN = Client(groups=True, "),
        group=GROUP,
        own="OWN",
    )
    shipped = (Path(__file__).parents[2] / "campaigns" / "tombstones.yaml").read_text()
    own = shipped.replace("cells:\n", "cells:\n  client: own\n")
    group = "workload:\n  groups: [{name: g, members: 1, client: own}]\n"
    file = tmp_path / "own.yaml"
    file.write_text(own.replace("workload:\n", group))
    with pytest.raises(CampaignRefused) as refusal:
        check(file)
    problems = {problem.field: problem.reason for problem in refusal.value.problems}
    assert problems.keys() == {"workload.keys", "workload.tombstones"}
    assert all("the program of own speaks version 1" in one for one in problems.values())


@pytest.mark.parametrize("what", ["command", "artifact", "missing"])
def test_error_of_a_plugin_names_it(install: Install, what: str) -> None:
    source = SOURCE + f"OWN = replace(OWN, {what}=broken)"
    install("owner", source, group=GROUP, own="OWN")
    arguments = (NODE,) if what == "command" else ()
    with pytest.raises(InfraError, match=r"client own of the plug-in owner 1\.0: ZeroDivisionE"):
        getattr(programs, what)("own", *arguments)


def told(manner: str, program: Path) -> _Told:
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {TINY} {manner}\n", encoding="utf-8")
    program.chmod(0o755)
    system = SimpleNamespace(bootstrap_servers="10.0.0.1:9092")
    return _Told(str(program), SimpleNamespace(where=lambda one: one.path), system, "t", {})


def exchange(manner: str, program: Path) -> _Told:
    with told(manner, program) as one:
        one.send(dict.fromkeys(range(30), b"x"))
        one.await_until(lambda: len(one.outcomes) == 30, "every outcome")
        one.flush()
    return one


def test_program_that_keeps_the_protocol_is_heard_to_its_end(tmp_path: Path) -> None:
    assert len(exchange("acks", tmp_path / "program").outcomes) == 30
    assert len(exchange("refuses", tmp_path / "program").outcomes) == 30


@pytest.mark.parametrize(
    ("manner", "says"),
    [
        ("malformed", "said what is no line: "),
        ("rude", "said what is no line: "),
        ("twice", "it reports record 0 twice"),
        ("strange", "it reports record 999999, which was not sent"),
        ("answers", "it sent a line that was not requested: Undone"),
        ("status", "the program ended with status 7"),
        ("quits", "the program ended with status 0"),
        ("signal", "the program was ended by SIGSEGV"),
        ("fatal", "it cannot go on: the library has failed for good"),
        ("sorry", "the program ended with status 5"),
    ],
)
def test_program_that_breaks_the_protocol_does_not_conform(
    tmp_path: Path, manner: str, says: str
) -> None:
    with pytest.raises(NotConforming) as refused:
        exchange(manner, tmp_path / "program")
    assert says in str(refused.value)


def test_program_that_is_not_there_does_not_conform(tmp_path: Path) -> None:
    with pytest.raises(NotConforming, match="the program"):
        check_client(str(tmp_path / "nowhere"))
    with pytest.raises(NotConforming, match="the program"):
        check_client("no-such-client")


@pytest.mark.integration
def test_program_that_acknowledges_unsent_records_does_not_conform(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {TINY} acks\n", encoding="utf-8")
    program.chmod(0o755)
    assert os.access(program, os.X_OK)
    with pytest.raises(NotConforming, match="partition 0 has 0 records for 100 that were sent"):
        check_client(str(program))


@pytest.mark.long
@pytest.mark.integration
def test_program_that_leaves_out_keys_does_not_conform(tmp_path: Path) -> None:
    program = tmp_path / "program"
    without = r"/^property request/d; s/^(keyed|tombstone) (\S+ \S+) \S+/send \2/"
    program.write_text(
        f"#!/bin/sh\nsed -uE '{without}' | {sys.executable} -P -m {AIOKAFKA}\n", encoding="utf-8"
    )
    program.chmod(0o755)
    check_client(str(program))
    with pytest.raises(NotConforming, match="by key, value and headers"):
        check_client(str(program), keys=True)
