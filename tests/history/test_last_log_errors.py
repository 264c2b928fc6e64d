"""The last error of a log, as programs of every kind write it."""

import pytest

from ackproof.history.messages import last_error, quoted

JAVA = b"""INFO starting
ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
java.lang.ExceptionInInitializerError: null
\tat kafka.Kafka$.main(Kafka.scala:88)
Caused by: java.lang.IllegalArgumentException: No security protocol defined for listener PLAINTEXT
\tat org.apache.kafka.Listeners.map(Listeners.java:12)
\t... 6 more
"""
PYTHON = b"""Traceback (most recent call last):
  File "client.py", line 7, in on_delivery
AttributeError: 'str' object has no attribute 'offset'
flushing
"""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (JAVA, "IllegalArgumentException: No security protocol defined for listener PLAINTEXT"),
        (PYTHON, "AttributeError: 'str' object has no attribute 'offset'"),
        (b"[2026-11-28 10:00:00,000] FATAL no disk left\nbye\n", "FATAL no disk left"),
        (b"panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n", "panic: "),
        (b"thread 'main' panicked at src/main.rs:2:5:\nexplicit panic\n", "panicked at src/main"),
        (b"terminate called after throwing an instance of 'E'\nAborted\n", "terminate called"),
    ],
)
def test_last_error_is_quoted_with_the_path(log: bytes, error: str) -> None:
    words = quoted(log, "logs/n/n.log")
    assert words.startswith("; the last error in logs/n/n.log: ")
    assert error in words
    assert "\n" not in words


def test_log_without_an_error_is_quoted_by_its_last_line() -> None:
    assert quoted(b"one\ntwo \n\n", "a.log") == "; the last line in a.log: two"
    assert quoted(b"\n", "a.log") == ""
    assert last_error(["INFO no errors so far"]) is None
