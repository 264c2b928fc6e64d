"""Creation of nodes by several threads, as all backends share it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh.bundle import once
from ackproof.infra.machine.parallel import SeveralFailed, on_all
from ackproof.infra.node.nodes import Nodes

WAIT_S = 120


def test_each_node_is_made_once_for_concurrent_requests() -> None:
    made: list[str] = []

    def make(name: str) -> SimpleNamespace:
        made.append(name)
        return SimpleNamespace(name=name)

    nodes = Nodes(make)
    got = on_all(nodes.get, ["a", "b"] * 8)
    assert sorted(made) == ["a", "b"]
    assert all(node is nodes.get(node.name) is nodes.ours(node) for node in got)
    assert sorted(node.name for node in nodes.made()) == ["a", "b"]


def test_different_ones_are_made_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def make(name: str) -> SimpleNamespace:
        together.wait(WAIT_S)
        return SimpleNamespace(name=name)

    assert len(on_all(Nodes(make).get, ["a", "b", "c"])) == 3


def test_node_that_could_not_be_made_is_tried_again() -> None:
    errors = [InfraError("no room")]

    def make(name: str) -> SimpleNamespace:
        if errors:
            raise errors.pop()
        return SimpleNamespace(name=name)

    nodes = Nodes(make)
    with pytest.raises(InfraError, match="no room"):
        nodes.get("a")
    assert nodes.made() == []
    assert nodes.get("a").name == "a"


def test_close_waits_for_nodes_that_are_being_made() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def make(name: str) -> SimpleNamespace:
        begun.set()
        assert go_on.wait(WAIT_S)
        return SimpleNamespace(name=name)

    nodes = Nodes(make)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(nodes.get, "a")
        assert begun.wait(WAIT_S)
        closed = pool.submit(nodes.close)
        with pytest.raises(TimeoutError):
            closed.result(0.2)
        go_on.set()
        assert closed.result(WAIT_S)
        assert nodes.made() == [asked.result(WAIT_S)]
    assert not nodes.close()
    with pytest.raises(InfraError, match="closed"):
        nodes.get("b")


def test_all_actions_are_tried_and_all_failures_reported() -> None:
    tried: list[int] = []

    def act(number: int) -> int:
        tried.append(number)
        if number % 2:
            raise InfraError(f"not {number}")
        return number * 10

    assert on_all(act, [0, 2]) == [0, 20]
    with pytest.raises(SeveralFailed, match="not 1\nnot 3"):
        on_all(act, [0, 1, 2, 3])
    assert sorted(tried) == [0, 0, 1, 2, 2, 3]
    with pytest.raises(ZeroDivisionError):
        on_all(lambda number: 1 // number, [0, 1])


def test_concurrent_callers_share_one_result() -> None:
    asking = threading.Barrier(4)
    found: list[int] = []

    @once
    def find() -> int:
        found.append(len(found))
        with pytest.raises(threading.BrokenBarrierError):
            asking.wait(0.2)  # the others would come here, too
        return found[0]

    assert on_all(lambda _: find(), range(4)) == [0] * 4
    assert found == [0]


def test_removed_node_is_made_again_on_request() -> None:
    closed: list[str] = []
    nodes = Nodes(lambda name: SimpleNamespace(name=name, close=lambda: closed.append(name)))
    first = nodes.get("a")
    for _ in range(2):
        nodes.remove("a")
    assert closed == ["a"]
    assert nodes.made() == []
    assert nodes.get("a") is not first


def test_node_that_cannot_be_closed_is_kept() -> None:
    def close() -> None:
        raise InfraError("it is silent")

    nodes = Nodes(lambda name: SimpleNamespace(name=name, close=close))
    first = nodes.get("a")
    with pytest.raises(InfraError, match="silent"):
        nodes.remove("a")
    assert nodes.get("a") is first
