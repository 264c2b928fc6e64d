"""What delivery reports make of records: the outcomes of many at once."""

import numpy as np
from confluent_kafka import KafkaError

from history.schema import SendType
from workloads.librdkafka.messages import Reports
from workloads.producing.outcomes import of_report
from workloads.producing.recorder import SendRecorder
from workloads.producing.unresolved import FEW


def record(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """Record the outcomes of what was reported together: it is known since ``now``, in nanoseconds
    of the Unix epoch. ``acknowledged``: whether brokers acknowledge records: without, no offset is
    told."""
    numbers, offsets, codes = reports
    if len(numbers) <= FEW:
        _record_each(reports, recorder, acknowledged, now)
        return
    failed = codes != 0
    untold = failed | (offsets < 0)
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
    for number, offset, code in told:
        error = KafkaError(code) if code else None
        is_told = acknowledged and not code and offset >= 0
        recorder.resolve(
            number,
            of_report(error),
            offset if is_told else None,
            None if error is None else error.name(),
            now,
        )
