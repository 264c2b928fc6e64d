"""A table holds what plug-ins register; what cannot be used is named and breaks nothing else."""

import sys

import pytest

from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Fault, as_fault
from ackproof.plugins import SWITCH, Table, misplaced
from tests.support.builders.installations import Install

RENAMED = """
from dataclasses import replace
from ackproof.nemesis.process.servers import KILL
OWN = replace(KILL, name="own-kill")
"""
OF_KILL = "from dataclasses import replace\nfrom ackproof.nemesis.process.servers import KILL\n"
PARAMETERS = (
    OF_KILL
    + "from pydantic import Field\nfrom ackproof.nemesis.interface import Parameters\n"
    + "class Own(Parameters):\n    {}\n"
    + "OWN = replace(KILL, name='own-kill', parameters=Own)\n"
)


def table() -> Table[Fault]:
    return Table("ackproof.faults", "fault", FAULTS.built_in, as_fault)


def test_plugin_fault_is_in_the_table_after_the_built_in_ones(install: Install) -> None:
    install("renamed", RENAMED, own_kill="OWN", version="2.3")
    faults = table()
    assert [*faults] == [*FAULTS.built_in, "own-kill"]
    assert faults["own-kill"].name == "own-kill"
    assert str(faults.plugin("own-kill")) == "renamed 2.3"
    assert faults.plugin("kill") is faults.plugin("no-such-fault") is None
    assert [str(one) for one in faults.registrations] == [
        "the fault own-kill of the plug-in renamed 2.3"
    ]


def test_plugin_is_not_imported_until_it_is_named_or_listed(install: Install) -> None:
    install("renamed", RENAMED, own_kill="OWN")
    faults = table()
    assert faults["kill"].name == "kill"
    assert "no-such-fault" not in faults
    assert "renamed" not in sys.modules
    assert "own-kill" in faults
    assert "renamed" in sys.modules


def test_plugin_that_looks_faults_up_while_it_is_imported_is_usable(install: Install) -> None:
    source = "from dataclasses import replace\nfrom ackproof.nemesis import FAULTS\n"
    install("looks", source + "OWN = replace(FAULTS['kill'], name='own-kill')", own_kill="OWN")
    assert "own-kill" in table()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("", "AttributeError: module 'broken' has no attribute 'OWN'"),
        ("OWN = None", "it has no name, summary, aim, parameters, needs, destroys, plan, bitten"),
        ("class OWN: ...", "OWN is a class; register an instance of it"),
        (OF_KILL + "OWN = KILL", "it is registered as own-kill, but its name is 'kill'"),
        (OF_KILL + "OWN = replace(KILL, name='own-kill', summary='')", "its summary must be one"),
        (OF_KILL + "OWN = replace(KILL, name='own-kill', aim='brokers')", "its aim must be one of"),
        (OF_KILL + "OWN = replace(KILL, name='own-kill', destroys='data')", "it destroys 'data'"),
        (
            OF_KILL + "OWN = replace(KILL, name='own-kill', parameters=dict)",
            "its parameters must be a subclass of ackproof.nemesis.interface.Parameters",
        ),
        (PARAMETERS.format("count: int"), "its parameter count has no default"),
        (PARAMETERS.format("count: int = 1"), "its parameter count has no description"),
        (
            PARAMETERS.format("before_offset: int = Field(default=1, description='x')"),
            "its parameter before_offset needs another name: it means what delete-records does",
        ),
    ],
)
def test_registration_that_cannot_be_used_is_named_in_one_line(
    install: Install, source: str, reason: str
) -> None:
    install("broken", source, own_kill="OWN")
    faults = table()
    assert "own-kill" not in faults
    assert [*faults] == [*FAULTS.built_in]
    refusal = faults.refusal("own-kill")
    assert refusal is not None
    told = f"the fault own-kill of the plug-in broken 1.0 cannot be used: {reason}"
    assert refusal.startswith(told)
    assert "\n" not in refusal
    assert [str(one) for one in faults.registrations] == [refusal]


def test_plugin_does_not_replace_a_built_in_fault(install: Install) -> None:
    install("renamed", RENAMED, kill="OWN")
    faults = table()
    assert faults["kill"] is FAULTS["kill"]
    assert faults.plugin("kill") is faults.refusal("kill") is None
    (registration,) = faults.registrations
    assert registration.problem == "the name is a built-in one's"
    assert "renamed" not in sys.modules


def test_name_registered_by_two_plugins_is_refused(install: Install) -> None:
    install("renamed", RENAMED, own_kill="OWN")
    install("other", RENAMED, own_kill="OWN")
    faults = table()
    assert "own-kill" not in faults
    refusal = faults.refusal("own-kill")
    assert refusal is not None
    assert "other 1.0" in refusal
    assert "renamed 1.0" in refusal
    assert refusal.endswith("register this name; uninstall all but one")


def test_name_of_an_entry_point_is_lower_case_words(install: Install) -> None:
    install("renamed", RENAMED, Own="OWN")
    assert "is not a valid name: use lower-case words joined by hyphens" in str(
        table().refusal("Own")
    )


def test_switch_leaves_all_plugins_out(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("renamed", RENAMED, own_kill="OWN")
    monkeypatch.setenv(SWITCH, "off")
    faults = table()
    assert [*faults] == [*FAULTS.built_in]
    assert not faults.registrations


def test_group_that_does_not_exist_is_named(install: Install) -> None:
    install("renamed", RENAMED, group="ackproof.fault", own_kill="OWN")
    assert misplaced(["ackproof.faults"]) == [
        "renamed 1.0 registers own-kill under ackproof.fault, which is not one of ackproof.faults"
    ]
