"""What delivery reports make of records: the outcomes of many at once.

A record that was acknowledged in another partition than it was sent to is recorded as acknowledged
without an offset: no offset of the partition that it was sent to is its. The checkers then miss it
there (``lost``) and find it in the other one, to which it was never sent (``phantom``).
"""

import logging

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.schema import SendType
from ackproof.workloads.librdkafka.messages import Reports
from ackproof.workloads.producing.outcomes import of_report
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.producing.unresolved import FEW

_log = logging.getLogger(__name__)


def record(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """Record the outcomes of what was reported together: it is known since ``now``, in nanoseconds
    of the Unix epoch. ``acknowledged``: whether brokers acknowledge records: without, no offset is
    told."""
    numbers, offsets, codes, _ = reports
    if len(numbers) <= FEW:
        _record_each(reports, recorder, acknowledged, now)
        return
    failed = codes != 0
    untold = failed | (offsets < 0) | _misplaced(reports, recorder)
    told = None if not acknowledged else np.ma.masked_array(offsets, untold)
    if not failed.any():
        recorder.resolve_all(numbers, SendType.OK, now, told, None)
        return
    errors = {code: KafkaError(code) if code else None for code in set(codes.tolist())}
    outcomes = {code: of_report(error) for code, error in errors.items()}
    names = {code: None if error is None else error.name() for code, error in errors.items()}
    recorder.resolve_all(
        numbers,
        [outcomes[code] for code in codes.tolist()],
        now,
        told,
        [names[code] for code in codes.tolist()],
    )


def _record_each(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """The same one by one."""
    told = zip(*(values.tolist() for values in reports), strict=True)
    misplaced = _misplaced(reports, recorder).tolist()
    for place, (number, offset, code, _) in enumerate(told):
        error = KafkaError(code) if code else None
        is_told = acknowledged and not code and offset >= 0 and not misplaced[place]
        recorder.resolve(
            number,
            of_report(error),
            offset if is_told else None,
            None if error is None else error.name(),
            now,
        )


def _misplaced(reports: Reports, recorder: SendRecorder) -> NDArray[np.bool_]:
    """Return which records were acknowledged in another partition than they were sent to. The log
    names the first of them."""
    sent_to = recorder.partitions_of(reports.numbers)
    misplaced: NDArray[np.bool_] = (
        (reports.errors == 0) & (sent_to >= 0) & (reports.partitions != sent_to)
    )
    if misplaced.any():
        place = int(np.argmax(misplaced))
        _log.error(
            "%d records were acknowledged in another partition than they were sent to: the first, "
            "record %d, was sent to partition %d, and acknowledged in partition %d at offset %d",
            np.count_nonzero(misplaced),
            reports.numbers[place],
            sent_to[place],
            reports.partitions[place],
            reports.offsets[place],
        )
    return misplaced
