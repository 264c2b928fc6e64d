"""A program under test that writes in transactions, by librdkafka:
``python leaking_transformer.py MANNER``.

It is a producer, and with properties of a consumer a transformer. The manner ``leaks`` commits the
offsets of its input at once, beside the transaction that they belong to; ``correct`` sends them to
it. Written with nothing of ours but the lines, as a user's own would be.
"""

import base64
import sys
import threading
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

MANNER = sys.argv[1]
MOST = 100
UNKNOWN = ("max.block.ms", "max.poll.records")
"""Properties of Java's client that librdkafka does not have."""
ANSWER_S = 5.0

speaking = threading.Lock()


def say(line: str) -> None:
    with speaking:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


class Transformer:
    def __init__(self) -> None:
        self.topic = ""
        self.properties: dict[str, dict[str, str]] = {"property": {}, "consumer": {}}
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.calls: dict[str, Callable[[list[int]], object]] = {
            "init": lambda _: self.producer.init_transactions(ANSWER_S),
            "begin": lambda _: self.producer.begin_transaction(),
            "commit": lambda _: self.producer.commit_transaction(ANSWER_S),
            "abort": lambda _: self.producer.abort_transaction(ANSWER_S),
            "offsets": self.offsets,
            "committed": self.committed,
            "seek": lambda place: self.consumer.seek(TopicPartition(self.topic, *place)),
            "close": lambda _: self.consumer.close(),
        }

    def obey_until(self, last: str) -> None:
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == last:
                return
            self.obey(verb, words)

    def obey(self, verb: str, words: list[str]) -> None:
        match verb:
            case "topic":
                (self.topic,) = words
            case "property" | "consumer" if words[0] not in UNKNOWN:
                self.properties[verb][words[0]] = words[1]
            case "open":
                self.open()
            case "poll":
                self.poll()
            case "send":
                self.send(*words)
            case "protocol" | "property" | "consumer":
                pass
            case call:
                self.call(partial(self.calls[call], list(map(int, words))))

    def open(self) -> None:
        self.producer = Producer(self.properties["property"])
        threading.Thread(target=self.serve, daemon=True).start()
        if self.properties["consumer"]:
            self.consumer = Consumer(self.properties["consumer"])
            self.consumer.subscribe(
                [self.topic],
                on_assign=partial(self.rebalanced, "assigned"),
                on_revoke=partial(self.rebalanced, "revoked"),
                on_lost=partial(self.rebalanced, "lost"),
            )
        say("ready")

    def serve(self) -> None:
        while True:
            self.producer.poll(0.1)

    def send(self, number: str, partition: str, value: str) -> None:
        report = partial(self.reported, number)
        decoded = base64.b64decode(value)
        self.producer.produce(self.topic, decoded, partition=int(partition), on_delivery=report)

    def reported(self, number: str, error, message) -> None:
        say(f"failed {number} {error.name()}" if error else f"acked {number} {message.offset()}")

    def rebalanced(self, event: str, _consumer: Consumer, places: list[TopicPartition]) -> None:
        say(event + "".join(f" {place.partition}" for place in places))
        self.obey_until("proceed")

    def poll(self) -> None:
        for one in self.consumer.consume(MOST, 0.1):
            if one.error() is None:
                value = base64.b64encode(one.value()).decode()
                say(f"record {one.partition()} {one.offset()} - {value}")
        say("polled")

    def offsets(self, numbers: list[int]) -> None:
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        places = [TopicPartition(self.topic, *pair) for pair in pairs]
        if MANNER == "leaks":
            self.consumer.commit(offsets=places, asynchronous=False)
        else:
            metadata = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(places, metadata, ANSWER_S)

    def committed(self, numbers: list[int]) -> None:
        places = [TopicPartition(self.topic, number) for number in numbers]
        for one in self.consumer.committed(places, ANSWER_S):
            say(f"offset {one.partition} {one.offset if one.offset >= 0 else '-'}")

    def call(self, what: Callable[[], object]) -> None:
        try:
            what()
        except KafkaException as refusal:
            error = refusal.args[0]
            remedy = "abortable" if error.txn_requires_abort() else "fatal"
            say(f"undone {'retriable' if error.retriable() else remedy} {error.name()}")
        else:
            say("done")


Transformer().obey_until("")
