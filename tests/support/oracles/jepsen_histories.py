"""Made histories as ops of Jepsen's Kafka workload."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ackproof.history.jepsen import Op, key_of, ops
from ackproof.history.reader import decoded_schema
from tests.support.builders.consumer_histories import World
from tests.support.builders.consumers import MadeConsumer
from tests.support.builders.histories import CELL, TOPIC, Made

KEY = key_of(TOPIC, 0)


def ops_of(log: Made, consumers: Sequence[MadeConsumer] = (), polled_at_once: int = 4) -> list[Op]:
    """Return the operations of one partition, as the history of a run would contain them."""
    tables = {
        "sends": _table("sends", [{"cell": CELL, **vars(event)} for event in log.sends]),
        "polls": _table(
            "polls", [_whose(vars(row), client=c.client) for c in consumers for row in c.polls]
        ),
        "assignments": _table(
            "assignments",
            [
                {"client": c.client, "group": c.group, **vars(row)}
                for c in consumers
                for row in c.assigned
            ],
        ),
        "log": _table("log", [_whose(vars(row), timestamp=0) for row in log.log]),
    }
    return list(ops(**tables, polled_at_once=polled_at_once))


def ops_of_world(world: World) -> list[Op]:
    return ops_of(world.log, world.consumers)


def _whose(row: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    cell = row.get("cell") or (None if row["producer"] is None else CELL)
    return {**row, "cell": cell, **more}


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = decoded_schema(name)
    whole = [{"topic": TOPIC, "partition": 0, **row} for row in rows]
    return pa.table(
        {f.name: pa.array([row.get(f.name) for row in whole], f.type) for f in schema}, schema
    )
