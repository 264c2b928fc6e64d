"""confluent-kafka as a program that speaks docs/client-protocol.md.

It imports nothing of Ackproof: this file alone is what nodes need beside confluent-kafka.
"""

import base64
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

_TAKEN = {
    *("bootstrap.servers", "client.id", "acks", "enable.idempotence", "linger.ms"),
    *("max.in.flight.requests.per.connection", "delivery.timeout.ms", "request.timeout.ms"),
    *("batch.size", "compression.type", "retries"),
}
"""The producer properties that librdkafka has by Kafka's names."""

_lock = threading.Lock()


def _say(line: str) -> None:
    with _lock:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _send(producer: Any, topic: str, number: str, partition: str, value: str) -> None:
    def told(error: Any, message: Any) -> None:
        if error is None:
            offset = message.offset()
            _say(f"acked {number} {offset if offset >= 0 else '-'}")
        else:
            _say(f"failed {number} {error.name()}")

    try:
        producer.produce(topic, base64.b64decode(value), partition=int(partition), on_delivery=told)
    except Exception as error:  # noqa: BLE001 - whatever it is, the library has not taken it
        _say(f"refused {number} {type(error).__name__}")


@contextmanager
def _polled(producer: Any) -> Iterator[None]:
    """Let the library call back while the main thread waits for lines."""
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            producer.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Read commands from standard input until it ends."""
    config: dict[str, str] = {}
    topic = ""
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "topic":
            topic = rest
        elif verb == "property":
            name, _, config[name] = rest.partition(" ")
            if name not in _TAKEN:
                _say(f"fatal {name} is no property of this client")
                return
        elif verb == "open":
            break
    producer = Producer({**config, "log_level": 0})
    with _polled(producer):
        _say("ready")
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == "send":
                _send(producer, topic, *words)
            elif verb == "flush":
                producer.flush()
                _say("flushed")


if __name__ == "__main__":
    main()
