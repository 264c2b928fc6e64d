"""The controller's log of brokers that start or fail."""

import logging

import pytest

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint, LiveBroker
from ackproof.broker.server.controller.term import log_broker_changes


def registered(**epochs: int) -> dict[int, LiveBroker]:
    """Brokers ``b1``, ``b2``, ... with their epochs."""
    endpoint = Endpoint(host="h", port=1)
    return {
        int(name[1:]): LiveBroker(
            info=BrokerInfo(broker_id=int(name[1:]), endpoints=(endpoint,)), epoch=epoch
        )
        for name, epoch in epochs.items()
    }


@pytest.mark.parametrize(
    ("known", "live", "lines"),
    [
        (
            registered(b1=5, b2=6, b4=7),
            registered(b1=5, b2=6, b3=8),
            [
                "[BrokerChangeListener on Controller 1]: Newly added brokers: 3, "
                "deleted brokers: 4, all live brokers: 1,2,3",
                "[Controller 1]: Broker failure callback for 4",
                "[Controller 1]: New broker startup callback for 3",
            ],
        ),
        (
            registered(b1=5, b2=6),
            registered(b1=5, b2=9),  # it was away between two looks
            [
                "[BrokerChangeListener on Controller 1]: Newly added brokers: 2, "
                "deleted brokers: 2, all live brokers: 1,2",
                "[Controller 1]: Broker failure callback for 2",
                "[Controller 1]: New broker startup callback for 2",
            ],
        ),
        (
            registered(b1=5),
            registered(b1=5, b10=6, b9=7),
            [
                "[BrokerChangeListener on Controller 1]: Newly added brokers: 9,10, "
                "deleted brokers: , all live brokers: 1,9,10",
                "[Controller 1]: New broker startup callback for 9,10",
            ],
        ),
        (registered(b1=5), registered(b1=5), []),
    ],
    ids=["one for another", "bounced", "two more", "nothing"],
)
def test_controller_logs_brokers_as_the_document_prints_them(
    known: dict[int, LiveBroker],
    live: dict[int, LiveBroker],
    lines: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """*Failover*, "Broker failure" and "Broker startup"."""
    caplog.set_level(logging.INFO)
    log_broker_changes(1, known, live)
    assert [record.message for record in caplog.records] == lines
