"""What is asked beforehand, since it hardly ever happens: each is broken by hand."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.serialization import CheckVersion, Create, SetData, Transaction
from kio.schema.errors import ErrorCode

from ackproof.broker.coordination.administration import admin
from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.server.controller import hand_over
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.zk import isr_write, znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk, Tenure
from ackproof.broker.server.zk.isr_write import IsrWriteOutcome, IsrWriteResult
from ackproof.broker.server.zk.session import SessionNumber
from ackproof.broker.types import (
    NO_BROKER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)
from simulation.observer.leadership import handing_over
from simulation.observer.moments import newest_connection
from simulation.observer.orders import dropping, named, standing
from simulation.observer.orders.named import Order
from simulation.observer.writing import announced, compared, electing, written_again
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"
REPLICAS = "/brokers/topics/t/0/replicas"


def of(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


# --- WritesAreCompared ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        SetData(STATE, b"", 3),
        SetData("/config/topics/t", b"", -1),
        SetData(REPLICAS, b"", -1),
        CheckVersion(REPLICAS, 0),
        CheckVersion("/brokers/topics/t/0/leader", -1),  # it is there
    ],
)
def test_what_is_compared_or_not_computed_is_written(written: Any) -> None:
    compared.check(written)


@pytest.mark.parametrize("written", [SetData(STATE, b"", -1), CheckVersion(REPLICAS, -1)])
def test_nothing_is_written_over_whatever_is_there(written: Any) -> None:
    transaction = Transaction([CheckVersion("/controller_epoch", 1), written])
    for request in (written, transaction):
        with pytest.raises(Violation, match="WritesAreCompared"):
            compared.check(request)


# --- SettingsAreAnnounced ---------------------------------------------------------------------

NOTE = Create("/config/changes/config_change_", b"", [], 2)


def topic_there(path: str) -> tuple[bytes | None, int]:
    return (b"", 0) if path == "/brokers/topics/t" else (None, -1)


@pytest.mark.parametrize(
    "written",
    [
        Transaction([SetData("/config/topics/t", b"", 3), NOTE]),
        Transaction([Create("/brokers/topics/t", b"", [], 0), SetData("/config/topics/t", b"", 3)]),
        SetData("/config/topics/gone", b"", 3),
        SetData(STATE, b"", 3),
        NOTE,
    ],
)
def test_settings_are_written_with_a_note_or_their_topic_or_for_nobody(written: Any) -> None:
    announced.check(written, topic_there)


@pytest.mark.parametrize(
    "written",
    [
        SetData("/config/topics/t", b"", 3),
        Create("/config/brokers/<default>", b"", [], 0),
        Transaction([Create("/brokers/topics/v", b"", [], 0), SetData("/config/topics/t", b"", 3)]),
    ],
)
def test_settings_that_are_announced_later_may_never_be(written: Any) -> None:
    with pytest.raises(Violation, match="SettingsAreAnnounced"):
        announced.check(written, topic_there)


# --- OwnWritesAreKnown ------------------------------------------------------------------------

PROPOSED: dict[str, Any] = {
    "leader": BrokerId(1),
    "leader_epoch": LeaderEpoch(2),
    "controller_epoch": ControllerEpoch(3),
    "isr": of(1, 2),
    "zk_version": ZkVersion(4),
    "again": False,
}
STORED = znodes.encode_state(
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(2),
    controller_epoch=ControllerEpoch(3),
    isr=of(1, 2),
    broker_epochs={BrokerId(1): 6, BrokerId(2): 7},
)
WRITTEN = IsrWriteResult(IsrWriteOutcome.WRITTEN, ZkVersion(5))


async def _forgetful(*_: Any, **__: Any) -> IsrWriteResult:
    return IsrWriteResult(IsrWriteOutcome.CONFLICT)


def test_who_has_written_would_know_it_if_he_asked_again() -> None:
    written_again.check(isr_write.write_isr, TP, PROPOSED, WRITTEN, lambda _: (STORED, 5))
    with pytest.raises(Violation, match=r"OwnWritesAreKnown: 1 has written the ISR \[1, 2\]"):
        written_again.check(_forgetful, TP, PROPOSED, WRITTEN, lambda _: (STORED, 5))


def test_of_what_was_not_written_or_is_over_nobody_is_asked() -> None:
    refused = IsrWriteResult(IsrWriteOutcome.CONFLICT)
    written_again.check(_forgetful, TP, PROPOSED, refused, lambda _: (STORED, 4))
    written_again.check(_forgetful, TP, PROPOSED, WRITTEN, lambda _: (STORED, 6))


# --- NewestConnectionIsObeyed, RegisteredContest, HandsOver --------------------------------------


def test_a_controller_is_obeyed_on_its_newest_connection_alone() -> None:
    def careless(fence: ControlFence, request: Any, connection: int) -> ErrorCode:
        return ControlFence.admit(copy.copy(fence), request, max(connection, 7))

    fence, request = ControlFence(), SimpleNamespace(controller_epoch=1, broker_epoch=1)
    fence.broker_epoch = NO_BROKER_EPOCH
    said: Any = request
    assert fence.admit(said, 7) is ErrorCode.none
    newest_connection.obeyed(fence, said, 7, ControlFence.admit)
    with pytest.raises(Violation, match="NewestConnectionIsObeyed: a SimpleNamespace"):
        newest_connection.obeyed(fence, said, 7, careless)


def test_who_has_another_session_registers_before_it_contests_the_office() -> None:
    electing.begins_session(1, 8, {7}, contests=False)
    electing.begins_session(1, 8, {7, 8}, contests=True)
    with pytest.raises(Violation, match="RegisteredContest: broker 1 would contest"):
        electing.begins_session(1, 8, {7}, contests=True)


def test_who_still_leads_asks_again_before_it_stops() -> None:
    controller = SimpleNamespace(listener=SimpleNamespace(host="h", port=1))
    metadata: Any = SimpleNamespace(controller=1, brokers={1: controller})
    config: Any = SimpleNamespace(id=2, controller_socket_timeout_ms=1_000)
    handing_over.asks_again(2, lambda: hand_over._ask(config, 1, metadata))

    async def content() -> bool:
        return True

    with pytest.raises(Violation, match="HandsOver: broker 2 would stop as if it led nothing"):
        handing_over.asks_again(2, content)


# --- orders -----------------------------------------------------------------------------------


def test_what_is_done_is_dropped_whoever_adds_to_it() -> None:
    tenure = Tenure(ControllerEpoch(1), ZkVersion(1), SessionNumber(1))
    dropping.check(ControllerZk.drop_reassignments, tenure, (TP,))

    async def given_up(*_: Any) -> None:
        return

    with pytest.raises(Violation, match=r"DoneIsDropped: the order to move \['t-0'\] would stay"):
        dropping.check(given_up, tenure, (TP,))


def test_an_order_remembers_whom_the_former_one_named() -> None:
    former = Order(of(3), of(4))
    named.replaced(TP, former, Order(of(5), of(3, 4)), assigned=of(1, 2))
    named.replaced(TP, former, Order(of(3, 4), ()), assigned=of(1, 2))
    with pytest.raises(Violation, match=r"NamedAreRemembered: .* and nobody remembers \[4\]"):
        named.replaced(TP, former, Order(of(5), of(3)), assigned=of(1, 2))


def test_so_would_the_next_two() -> None:
    view = PartitionView(replicas=Assigned(replicas=of(1, 2), version=ZkVersion(0)))
    named.if_replaced(view, of(1, 3), admin._removing)

    def forgetful(view: PartitionView, target: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(b for b in view.moving_to or () if b not in {*view.assigned, *target})

    with pytest.raises(Violation, match=r"NamedAreRemembered: .* and nobody remembers \[3\]"):
        named.if_replaced(view, of(1, 3), forgetful)


class _Leading:
    """What is asked of one that begins to lead."""

    def __init__(self, context: Any) -> None:
        self.partition = SimpleNamespace(tp=TP, context=context, busy=False)
        self.assigned, self._context = of(1, 2), context

    def begin(self) -> None:
        if self._context.orders.get(TP) is not None:
            self.partition.busy = True


def test_who_begins_to_lead_sees_what_was_ordered_meanwhile() -> None:
    settings: Any = SimpleNamespace(broker=BrokerId(1))
    variant: Any = SimpleNamespace()
    context = Context(settings=settings, variant=variant, outbox=Outbox())
    leading: Any = _Leading(context)
    standing.begins(leading, _Leading.begin)
    assert not leading.partition.busy
    assert not context.orders
    with pytest.raises(Violation, match="OrdersAreSeen: broker 1 begins to lead t-0"):
        standing.begins(leading, lambda _: None)
