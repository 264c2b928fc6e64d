"""Link faults on every backend: cases of the conformance suite."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import Backend, Capability, Command, InfraError, Node
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.peer import PORT, peers
from tests.support.backends.peer_process import CONTROL_PORT
from tests.support.processes.deadlines import PATIENCE_S

PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
TRIES = 40
WITHIN_S = 0.4
HALF = Impairment(kind="loss", amount=50)
LINKS = frozenset(one for one in Capability if one.endswith("-links"))


def cut(backend: Backend, source: Node, target: Node) -> None:
    backend.links.impair(source, target, CUT)


def heal(backend: Backend, source: Node, target: Node) -> None:
    backend.links.mend(source, target, CUT)


@contextmanager
def impaired(
    backend: Backend, source: Node, target: Node, impairment: Impairment
) -> Iterator[None]:
    """Twice, either way: it is idempotent."""
    for _ in range(2):
        backend.links.impair(source, target, impairment)
    yield
    for _ in range(2):
        backend.links.mend(source, target, impairment)


def links_can_be_treated(backend: Backend, _scratch: Path) -> None:
    """Check the capabilities that the other cases of this file need."""
    backend.node("a")
    assert backend.capabilities >= LINKS


def a_lossy_link_loses_some(backend: Backend, _scratch: Path) -> None:
    a, b, c = (backend.node(name) for name in "abc")
    with peers(a, b, c):
        with impaired(backend, a, b, HALF):
            # Either way it is a packet from a to b that is lost: the question, or the answer.
            for source, target in ((a, b), (b, a)):
                succeeded = backend.links.tries(source, target, PORT, TRIES, WITHIN_S)
                assert 0 < succeeded < TRIES
            counted = backend.links.counted(a, b, HALF)
            assert 0 < counted.hit < counted.seen
            assert backend.links.tries(a, c, PORT, TRIES, PATIENCE_S) == TRIES
        assert backend.links.tries(a, b, PORT, TRIES, WITHIN_S) >= TRIES - 1


def link_has_several_impairments_at_once(backend: Backend, _scratch: Path) -> None:
    """Each comes and goes for itself, in any order."""
    a, b = backend.node("a"), backend.node("b")
    troubles = [
        HALF,
        CUT,
        Impairment(kind="reset", ports=(PORT,)),
        Impairment(kind="narrow", amount=500),
    ]
    with peers(a, b):
        for order in list(permutations(troubles))[::5]:
            for one in troubles:
                backend.links.impair(a, b, one)
            left = list(order)
            while left:
                backend.links.mend(a, b, left.pop())
                if CUT in left:
                    assert backend.links.tries(a, b, PORT, 2, WITHIN_S) == 0
            assert backend.reaches(a, b, PORT, timeout=PATIENCE_S)


def a_port_is_cut_alone(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    only = Impairment(kind="loss", amount=100, ports=(PORT,))
    with peers(a, b):
        for source, target in ((a, b), (b, a)):
            with impaired(backend, source, target, only):
                for there in ((a, b), (b, a)):  # of the one the answers are dropped
                    assert not backend.reaches(*there, PORT, timeout=WITHIN_S)
                    assert backend.reaches(*there, CONTROL_PORT, timeout=PATIENCE_S)
            assert backend.reaches(a, b, PORT, timeout=PATIENCE_S)


def a_counter_begins_anew(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    with peers(a, b):
        for _ in range(3):
            with impaired(backend, a, b, CUT):
                assert backend.links.counted(a, b, CUT).hit == 0
                backend.reaches(a, b, PORT, timeout=0.1)
                assert 1 <= backend.links.counted(a, b, CUT).hit <= 2
            assert backend.links.counted(a, b, CUT).hit >= 1, "it is told afterwards, too"


def connections_are_reset(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    for kind, refused in (("reset", True), ("reset-open", False)):
        reset = Impairment(kind=kind)  # type: ignore[arg-type]
        with peers(a, b):
            for source, target in ((a, b), (b, a)):
                assert backend.links.hold("held", a, b, PORT)
                assert backend.links.held("held", a) == "open"
                with impaired(backend, source, target, reset):
                    wait_until(
                        lambda: backend.links.held("held", a) == "reset", PATIENCE_S, "a reset"
                    )
                    assert backend.links.counted(source, target, reset).hit > 0
                    succeeded = backend.links.tries(a, b, PORT, 4, WITHIN_S if refused else 20)
                    assert succeeded == (0 if refused else 4)
                assert backend.reaches(a, b, PORT, timeout=PATIENCE_S)
                backend.links.let_go("held", a)
                assert backend.links.held("held", a) == "none"


def a_narrow_link_carries_less(backend: Backend, _scratch: Path) -> None:
    a, b, c = (backend.node(name) for name in "abc")
    narrow = Impairment(kind="narrow", amount=500)
    narrower = Impairment(kind="narrow", amount=200)
    with peers(a, b, c):
        with impaired(backend, a, b, narrow), impaired(backend, a, c, narrow):
            assert 0 < backend.links.throughput_kbit(a, b, 2) < 1_000
            assert backend.links.throughput_kbit(b, a, 0.3) > 2_000, "one way alone"
            with impaired(backend, a, b, narrower):
                assert 0 < backend.links.throughput_kbit(a, b, 3) < 400
            assert backend.links.counted(a, b, narrow).hit > 0
        assert backend.links.throughput_kbit(a, b, 0.3) > 2_000


def a_slow_link_takes_its_time(backend: Backend, _scratch: Path) -> None:
    a, b, c = (backend.node(name) for name in "abc")
    slow, slower = (Impairment(kind="slow", amount=amount) for amount in (100, 300))

    def quickest(source: Node, target: Node) -> float:
        return min(backend.links.connecting_ms(source, target, PORT, 5))

    with peers(a, b, c):
        with impaired(backend, a, b, slow):
            assert min(quickest(a, b), quickest(b, a)) >= 100
            wait_until(lambda: quickest(a, c) < 100, PATIENCE_S, "another link to be quick")
            with impaired(backend, a, b, slower):
                assert quickest(a, b) >= 100, "never quick meanwhile"
                wait_until(lambda: quickest(a, b) >= 300, PATIENCE_S, "the longer delay")
            assert quickest(a, b) >= 100
            wait_until(lambda: quickest(a, b) < 300, PATIENCE_S, "the shorter delay")
        wait_until(lambda: quickest(a, b) < 100, PATIENCE_S, "the link to be quick again")


def what_is_refused_changes_nothing(backend: Backend, _scratch: Path) -> None:
    a, b = backend.node("a"), backend.node("b")
    with peers(a, b):
        with pytest.raises(InfraError):
            backend.links.impair(a, b, Impairment(kind="loss", amount=50, ports=(1 << 20,)))
        assert backend.reaches(a, b, PORT, timeout=PATIENCE_S)
        with impaired(backend, a, b, CUT):
            assert not backend.reaches(a, b, PORT, timeout=WITHIN_S)


def nothing_of_it_is_left(backend: Backend, _scratch: Path) -> None:
    """The node's queues are as they were, whatever came and went."""
    a, b, c = (backend.node(name) for name in "abc")

    def queues(look: int) -> bytes:
        name = f"tc-{look}"
        command = Command(name=name, argv=["env", f"PATH={PATH}", "tc", "qdisc", "show"])
        assert a.start(command).wait(PATIENCE_S) == 0
        return a.read(a.log_directory / f"{name}.log")

    before = queues(1)
    narrow, slow = Impairment(kind="narrow", amount=500), Impairment(kind="slow", amount=50)
    with (
        impaired(backend, a, b, slow),
        impaired(backend, a, c, narrow),
        impaired(backend, a, b, narrow),
    ):
        assert queues(2) != before
    assert queues(3) == before


CASES = (
    links_can_be_treated,
    a_lossy_link_loses_some,
    link_has_several_impairments_at_once,
    a_port_is_cut_alone,
    a_counter_begins_anew,
    connections_are_reset,
    a_narrow_link_carries_less,
    a_slow_link_takes_its_time,
    what_is_refused_changes_nothing,
    nothing_of_it_is_left,
)
