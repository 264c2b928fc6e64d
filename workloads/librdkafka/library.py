"""The library that confluent-kafka has loaded, and the functions of rdkafka.h that are called here.

A wheel brings its own, by a name that is unknown before. A confluent-kafka that was built on the
machine has the system's. Either is in the process by now, so the process is asked.
"""

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path

import confluent_kafka
import numpy as np
from confluent_kafka import cimpl

from ackproof.workloads.process import ClientFailed

MAPS = Path("/proc/self/maps")

PRODUCER, CONSUMER = 0, 1
CONF_OK = 0
UNASSIGNED = -1
"""``RD_KAFKA_PARTITION_UA``: the library picks the partition, by its partitioner."""
COPY = 0x2
"""``RD_KAFKA_MSG_F_COPY``: what a record points to is the caller's again after the call."""
VALUE_OF_TOPIC, VALUE_OF_PARTITION, VALUE_OF_KEY, VALUE_OF_OPAQUE, VALUE_OF_HEADER = 2, 3, 5, 6, 9
"""``rd_kafka_vtype_t``: what an :class:`RdKafkaArgument` is."""
PURGE_QUEUE, PURGE_IN_FLIGHT, PURGE_WITHOUT_WAITING = 0x1, 0x2, 0x4
EVENT_REPORTS, EVENT_ERROR, EVENT_STATISTICS = 0x1, 0x8, 0x40
TEXT_BYTES = 512
"""The length of a buffer for a reason that the library writes, in bytes."""


class RdKafkaMessage(ctypes.Structure):
    """The type ``rd_kafka_message_t``.

    It is part of the library's ABI, which has not changed it since its first release. An
    ``rd_kafka_resp_err_t`` is an int.
    """

    _fields_ = (
        ("err", c_int32),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _Memory(ctypes.Structure):
    _fields_ = (("ptr", c_char_p), ("size", c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("val", c_char_p), ("size", c_ssize_t))


class _Value(ctypes.Union):
    _fields_ = (
        *(("rkt", c_void_p), ("i32", c_int32), ("mem", _Memory), ("header", _Header)),
        *(("ptr", c_void_p), ("_pad", ctypes.c_char * 64)),
    )


class RdKafkaArgument(ctypes.Structure):
    """The type ``rd_kafka_vu_t``: one argument of ``rd_kafka_produceva``."""

    _fields_ = (("vtype", c_int), ("u", _Value))


MESSAGE = np.dtype(
    {
        "names": [name for name, _ in RdKafkaMessage._fields_],
        "formats": [
            np.dtype(np.uintp if kind is c_void_p else kind) for _, kind in RdKafkaMessage._fields_
        ],
        "offsets": [getattr(RdKafkaMessage, name).offset for name, _ in RdKafkaMessage._fields_],
        "itemsize": ctypes.sizeof(RdKafkaMessage),
    }
)
"""The same type for numpy."""

_PARTITIONER = (c_int32, (c_void_p, c_char_p, c_size_t, c_int32, c_void_p, c_void_p))

_FUNCTIONS = {
    "rd_kafka_msg_partitioner_consistent": _PARTITIONER,
    "rd_kafka_msg_partitioner_consistent_random": _PARTITIONER,
    "rd_kafka_msg_partitioner_murmur2": _PARTITIONER,
    "rd_kafka_msg_partitioner_murmur2_random": _PARTITIONER,
    "rd_kafka_msg_partitioner_fnv1a": _PARTITIONER,
    "rd_kafka_msg_partitioner_fnv1a_random": _PARTITIONER,
    "rd_kafka_version": (c_int, ()),
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_events": (None, (c_void_p, c_int)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_oauthbearer_set_token": (
        c_int,
        (c_void_p, c_char_p, c_int64, c_char_p, c_void_p, c_size_t, c_char_p, c_size_t),
    ),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "rd_kafka_produceva": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
    "rd_kafka_queue_get_main": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_poll": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_queue_length": (c_size_t, (c_void_p,)),
    "rd_kafka_event_type": (c_int, (c_void_p,)),
    "rd_kafka_event_error": (c_int, (c_void_p,)),
    "rd_kafka_event_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_event_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_event_stats": (c_char_p, (c_void_p,)),
    "rd_kafka_event_message_count": (c_size_t, (c_void_p,)),
    "rd_kafka_event_message_array": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "rd_kafka_event_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_message_leader_epoch": (c_int32, (c_void_p,)),
    "rd_kafka_message_errstr": (c_char_p, (c_void_p,)),
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_message_headers": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_header_get_last": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "rd_kafka_mem_malloc": (c_void_p, (c_void_p, c_size_t)),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
    "rd_kafka_query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, c_void_p, c_void_p, c_int),
    ),
}
"""The functions by name: what each returns, and what it takes. ctypes takes a type that is missing
here as an int, which cuts the upper half off a pointer."""
_LATER = {
    "rd_kafka_messages_count": (c_size_t, (c_void_p,)),
    "rd_kafka_messages_get": (c_void_p, (c_void_p, c_size_t)),
    "rd_kafka_messages_destroy": (None, (c_void_p,)),
}
"""The functions of 2.15 and later; earlier versions do without."""
_SHORT = ("rd_kafka_message_destroy", "rd_kafka_message_leader_epoch")
"""The functions that are called for each message with the interpreter's lock held. They return
before any thread could use the lock, and giving it back is a third of such a call. They never wait
for a thread that waits for the lock, because no client here has a callback."""


@cache
def library() -> ctypes.CDLL:
    """Return the library; raise ClientFailed where there is none that can be called."""
    path = _loaded(MAPS.read_text())
    try:
        loaded, keeping = ctypes.CDLL(path), ctypes.PyDLL(path)
        for name in _SHORT:
            setattr(loaded, name, getattr(keeping, name))
        later = {name: types for name, types in _LATER.items() if hasattr(loaded, name)}
        for name, (returned, taken) in {**_FUNCTIONS, **later}.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = returned, taken
    except (OSError, AttributeError) as error:
        raise ClientFailed(f"librdkafka cannot be called in {path}: {error}") from error
    _check(loaded.rd_kafka_version(), path)
    return loaded


def _loaded(maps: str) -> str:
    """Return the path of the library in this process, by its map of memory.

    Where the map has none, it is part of confluent-kafka's own module, or does not exist. Its
    functions are then not found there.
    """
    paths = [line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")]
    named = [path for path in paths if Path(path).name.startswith("librdkafka")]
    return named[0] if named else str(cimpl.__file__)


def _check(version: int, path: str) -> None:
    """Raise ClientFailed where this is not confluent-kafka's library.

    Two libraries in a process are two versions sooner or later, and the figures of one are reported
    as the other's.
    """
    text, known = confluent_kafka.libversion()
    if version != known:
        raise ClientFailed(f"{path} is not the librdkafka {text} that confluent-kafka has loaded")
    if ctypes.sizeof(c_void_p) != ctypes.sizeof(ctypes.c_uint64):
        raise ClientFailed("librdkafka is called with pointers of 64 bits alone")
