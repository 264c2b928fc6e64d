"""What delivery reports make of records: the outcomes of many at once."""

import numpy as np
from confluent_kafka import KafkaError

from history.schema import SendType
from workloads.librdkafka.messages import Reports
from workloads.outcomes import of_report
from workloads.recorder import SendRecorder


def record(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """Record the outcomes of what was reported together: it is known since ``now``, in nanoseconds
    of the Unix epoch. ``acknowledged``: whether brokers acknowledge records: without, no offset is
    told."""
    numbers, offsets, codes = reports
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
