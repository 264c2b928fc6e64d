"""The client's program keeps the contract of a client: the conformance kit proves it."""

from ackproof.testing.clients import check_client


def test_confluent_speaks_the_protocol_and_tells_the_truth() -> None:
    check_client("confluent")
