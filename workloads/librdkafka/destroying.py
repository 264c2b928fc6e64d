"""Letting go of messages, many at once.

For one at a time the library has a call, for many since 2.15: of what a share consumer has taken,
an ``rd_kafka_messages_t``. That is how many there are, then where each is. It is no part of the
ABI, but there are calls that read it, and they are asked whether they read one of ours so.
"""

import ctypes
from collections import deque
from functools import cache

import numpy as np

from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.librdkafka.memory import Pointers


def destroy(client: int | None, messages: Pointers) -> None:
    """Let go of these messages of a client, by its handle."""
    if _takes_many():
        at_once(client, messages)
    else:
        one_by_one(messages)


def at_once(client: int | None, messages: Pointers) -> None:
    """With a library that can, and whose ``rd_kafka_messages_t`` is as here."""
    calls = library()
    ours = _counted(messages)
    theirs = calls.rd_kafka_mem_malloc(client, ours.nbytes)
    ctypes.memmove(theirs, ours.ctypes.data, ours.nbytes)
    calls.rd_kafka_messages_destroy(theirs)  # and of that memory


def one_by_one(messages: Pointers) -> None:
    """With any: for small ones that costs more than all that is done for them besides."""
    deque(map(library().rd_kafka_message_destroy, messages.tolist()), maxlen=0)


def _counted(messages: Pointers) -> Pointers:
    return np.concatenate([np.array([len(messages)], np.uintp), messages])


@cache
def _takes_many() -> bool:
    calls = library()
    if not hasattr(calls, "rd_kafka_messages_destroy"):
        return False
    messages = np.array([8, 16, 24], np.uintp)
    counted = _counted(messages)
    at, many = counted.ctypes.data, len(messages)
    read = [calls.rd_kafka_messages_get(at, place) for place in range(many)]
    return bool(calls.rd_kafka_messages_count(at) == many and read == messages.tolist())
