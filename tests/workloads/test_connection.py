"""Connection settings, passed to clients in their environment: no file contains secrets."""

import base64
import json
from pathlib import Path

import pytest

from ackproof.workloads.configuration import (
    CONNECTION,
    TOKEN_CALLBACK,
    connected,
    member_properties,
    producer_properties,
)
from ackproof.workloads.interface import Delivery
from ackproof.workloads.reading_back.final_read import consumer_properties
from ackproof.workloads.spec import FinalReadSpec, GroupMemberSpec, ProducerSpec

TOLD = {"security.protocol": "SASL_SSL", "sasl.username": "ackproof", "sasl.password": "hunter2"}
PLACE = {"bootstrap_servers": "kafka:9093", "history": Path("h"), "progress": Path("p")}
PRODUCER = ProducerSpec(
    cell="c", topic="t", partitions=1, acks="all", producer=0, rate=1, record_bytes=1, **PLACE
)
MEMBER = GroupMemberSpec(
    client="m", topic="t", partitions=1, group="g", delivery=Delivery.AT_LEAST_ONCE, **PLACE
)
FINAL_READ = FinalReadSpec(topics=(), deadline_s=1, **PLACE)
MADE = {
    "producer": lambda: producer_properties(PRODUCER),
    "member": lambda: member_properties(MEMBER),
    "final read": lambda: consumer_properties(FINAL_READ),
}


@pytest.mark.parametrize("kind", MADE)
def test_every_client_connects_with_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = MADE[kind]()
    monkeypatch.setenv(CONNECTION, json.dumps(TOLD))
    assert MADE[kind]() == {**before, **TOLD}


def test_secret_file_is_read_at_the_connection(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(" hunter2\r\n")
    told = {"sasl.username": "u", "sasl.password": {"file": str(tmp_path / "password")}}
    assert connected(told) == {"sasl.username": "u", "sasl.password": " hunter2"}


def test_token_of_a_run_reaches_librdkafka_by_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1_800_000_000}).encode()).decode()
    token = f"head.{claims.rstrip('=')}.signature"
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": token}
    monkeypatch.setenv(CONNECTION, json.dumps({"security.protocol": "SASL_SSL", **login}))
    for make in MADE.values():
        properties = make()
        assert token not in properties.values()
        assert properties[TOKEN_CALLBACK]("") == (token, 1_800_000_000)
