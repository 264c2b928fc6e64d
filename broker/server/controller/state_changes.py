"""The controller's lines in Kafka's ``state.change.logger``, one JSON object per line.

They report elections, writes, and requests to brokers.
:mod:`broker.server.replication.state_change_log` has the lines of the brokers that receive these
requests.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.events import Request, StateWrite
from ackproof.broker.types import BrokerId, ControllerEpoch
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest

logger = logging.getLogger("state.change.logger")


def log_request(
    event: str, broker: BrokerId, request: Request, error: ErrorCode | None = None
) -> None:
    """Log the state changes of a request: sender, receiver, content and epochs."""
    for change in _changes(request):
        line = {
            "event": event,
            "request": type(request).__name__.removesuffix("Request"),
            "to": broker,
            "controller": request.controller_id,
            "controller_epoch": request.controller_epoch,
            **change,
            "error": None if error in (None, ErrorCode.none) else error.name,
        }
        _record(line)


def log_tenure(event: str, controller: BrokerId, epoch: ControllerEpoch) -> None:
    """Log the beginning or the end of a term: ``elected`` or ``resigned``."""
    line = {"event": event, "controller": controller, "controller_epoch": epoch}
    _record(line)


def log_write(controller: BrokerId, write: StateWrite, *, written: bool) -> None:
    """Log that a partition's state was written, or that another write was faster."""
    line = {
        "event": "written" if written else "conflict",
        "request": "PartitionState",
        "controller": controller,
        "controller_epoch": write.controller_epoch,
        "partition": str(write.partition),
        "leader": write.leader,
        "leader_epoch": write.leader_epoch,
        "isr": write.isr,
        "expected_zk_version": write.expected,
    }
    _record(line)


def _changes(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the changes of LeaderAndIsr and StopReplica by partition, and UpdateMetadata as a
    whole."""
    if isinstance(request, LeaderAndIsrRequest):
        for topic in request.topic_states:
            for role in topic.partition_states:
                yield {
                    "partition": f"{topic.topic_name}-{role.partition_index}",
                    "leader": role.leader,
                    "leader_epoch": role.leader_epoch,
                    "isr": role.isr,
                    "zk_version": role.zk_version,
                }
    elif isinstance(request, StopReplicaRequest):
        for stopped in request.topic_states:
            for stop in stopped.partition_states:
                yield {
                    "partition": f"{stopped.topic_name}-{stop.partition_index}",
                    "leader_epoch": stop.leader_epoch,
                    "delete": stop.delete_partition,
                }
    else:
        count = sum(len(topic.partition_states) for topic in request.topic_states)
        yield {"partitions": count, "live_brokers": [b.id for b in request.live_brokers]}


def _record(line: Mapping[str, object]) -> None:
    logger.info(json.dumps({key: value for key, value in line.items() if value is not None}))
