"""Inventory files: what is right, and how what is wrong is named. No host is asked."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from ackproof.infra.backends.ssh.inventory import (
    ROLES,
    Host,
    InventoryRefused,
    Role,
    check_places,
    load,
    place,
)

Write = Callable[[object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_one(document: object) -> Path:
        path = tmp_path / "hosts.yaml"
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return path

    return write_one


def one(**changes: object) -> dict[str, object]:
    """An inventory of one host."""
    return {"hosts": [{"address": "192.0.2.1", "user": "admin", **changes}]}


def test_defaults_reach_hosts_and_jump_hosts(write: Write, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    document = {
        "defaults": {
            "user": "admin",
            "port": 2222,
            "key": str(key),
            "jump": {"address": "bastion"},
        },
        "hosts": [
            {"address": "a"},
            {"address": "b", "user": "other", "port": 22, "jump": {"address": "c", "user": "me"}},
            {"address": "d", "jump": None, "roles": ["broker"]},
        ],
    }
    a, b, d = load(write(document)).hosts
    assert a.jump is not None
    assert b.jump is not None
    assert (a.user, a.port, a.key, a.jump.address, a.jump.user) == (
        "admin", 2222, key, "bastion", "admin",
    )  # fmt: skip
    assert (b.user, b.port, b.jump.address, b.jump.user) == ("other", 22, "c", "me")
    assert d.jump is None
    assert (str(a), str(b)) == ("[a]:2222", "b")
    assert a.roles == ("broker", "zookeeper", "client")
    assert d.roles == ("broker",)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("a: [", "file: not YAML"),
        ("[]", r":1:1: file: Input should be a mapping of keys to values, not \[\]"),
        ("hosts: []", "hosts: at least one host is needed"),
        ("hosts: {}", r":1:8: hosts: .*list, not \{\}"),
        ("hosts: [x]", r"hosts\[0\]: .*not 'x'"),
        ("hosts: []\nhosts: []", ":2:1: hosts: is given twice; the first is in line 1"),
        ({"hosts": [{"address": "a"}]}, r"hosts\[0\].user: is missing"),
        (one(adress="b"), r"hosts\[0\].adress: unknown key; did you mean address\?"),
        (one(port="22"), r"hosts\[0\].port: .*whole number.*'22'"),
        (one(port=70000), r"hosts\[0\].port: .*65535.*70000"),
        (one(address="-oProxyCommand=x"), r"hosts\[0\].address: .*'-oProxyCommand=x'"),
        (one(address="a b"), r"hosts\[0\].address: .*'a b'"),
        (one(user="a;b"), r"hosts\[0\].user: .*'a;b'"),
        (
            one(roles=["brokr"]),
            r"hosts\[0\].roles\[0\]: .*'zookeeper' or 'client', not 'brokr'; did you mean broker\?",
        ),
        (one(roles=["broker", "broker"]), r"hosts\[0\].roles: each role once"),
        (one(roles=[]), r"hosts\[0\].roles: .*at least one"),
        (one(key="/nonexistent"), "hosts\\[0\\].key: /nonexistent is not a readable file"),
        (one(jump={"address": "b"}), r"hosts\[0\].jump.user: is missing"),
        (one(**{"passphrase.env": "UNSET_HERE"}), r"passphrase.env: .*UNSET_HERE is not set"),
        (one(passphrase="x"), r"hosts\[0\].passphrase: unknown key"),
        ({**one(), "defaults": {"usr": "x"}}, r"defaults.usr: unknown key; did you mean user\?"),
        ({**one(), "directory": "relative"}, "directory: .*'relative'"),
        ({**one(), "directory": "/"}, "directory: .*'/'"),
        ({"hosts": [{"address": "a", "user": "u"}] * 2}, "hosts: given twice: a"),
    ],
)
def test_refused_with_file_field_and_value(write: Write, document: object, says: str) -> None:
    path = write(document)
    with pytest.raises(InventoryRefused, match=says) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}:")


def test_every_problem_is_named(write: Write) -> None:
    with pytest.raises(InventoryRefused) as refused:
        load(write({"hosts": [{"address": "a", "port": "x"}, {"adress": "b", "user": "u"}]}))
    fields = [problem.field for problem in refused.value.problems]
    assert fields == ["hosts[0].user", "hosts[0].port", "hosts[1].adress"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InventoryRefused, match=r"none.yaml: file: cannot be read"):
        load(tmp_path / "none.yaml")


def test_the_passphrase_is_in_nothing_that_can_be_printed(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_VARIABLE", "the passphrase itself")
    inventory = load(write(one(**{"passphrase.env": "THE_VARIABLE"})))
    assert inventory.hosts[0].passphrase == "the passphrase itself"
    for shown in (str(inventory), repr(inventory), inventory.model_dump_json()):
        assert "the passphrase itself" not in shown


NODES = ("zookeeper-1", "broker-1", "broker-2", "client-1")


def test_the_most_particular_host_that_is_left(write: Write) -> None:
    roles = {"all": None, "c": ["client"], "b": ["broker"], "zb": ["zookeeper", "broker"]}
    document = {
        "defaults": {"user": "u"},
        "hosts": [{"address": a, **({"roles": r} if r else {})} for a, r in roles.items()],
    }
    placed = place(NODES, load(write(document)).hosts)
    assert {name: host.address for name, host in placed.items()} == {
        "zookeeper-1": "zb",
        "broker-1": "b",
        "broker-2": "all",
        "client-1": "c",
    }


@pytest.mark.parametrize("hosts", list(permutations(ROLES)))
def test_controllers_stand_where_zookeeper_would(hosts: tuple[Role, ...]) -> None:
    """Not on the only host that a client may have, which would be the first that is free."""
    made = [Host(address=role, user="u", roles=(role,)) for role in hosts]
    placed = place(("controller-1", "broker-1", "client-1"), made)
    assert placed["controller-1"].address == "zookeeper"
    with pytest.raises(LookupError, match="for controller-2: 2 with the role zookeeper are needed"):
        place(("controller-1", "controller-2"), made)


def test_too_few_hosts_of_a_role(write: Write) -> None:
    document = {
        "defaults": {"user": "u"},
        "hosts": [{"address": a, "roles": ["broker"]} for a in "abc"],
    }
    path = write(document)
    says = (
        "hosts: no host left for zookeeper-1: 1 with the role zookeeper are needed, but only 0 of 3"
    )
    with pytest.raises(InventoryRefused, match=says):
        check_places(NODES, load(path), path)
    with pytest.raises(InventoryRefused, match="1 hosts are too few"):
        check_places(("a", "b"), load(write(one())), path)
