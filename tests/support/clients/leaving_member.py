"""A member that leaves its group when it reads a line, and serves no callback until then.

It commits as it gives its partitions up, and fails if that is refused.

``python -m tests.support.clients.leaving_member BOOTSTRAP GROUP TOPIC INSTANCE``, with an empty
INSTANCE for a member that is not static. librdkafka's log goes to standard error.
"""

import sys

from confluent_kafka import Consumer, TopicPartition

from ackproof.workloads.consuming.polling import leave


def main(bootstrap: str, group: str, topic: str, instance: str) -> None:
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "heartbeat.interval.ms": 300,
        "enable.auto.commit": False,
        "debug": "cgrp",
    }
    if instance:
        properties["group.instance.id"] = instance
    consumer = Consumer(properties)

    def commit(_consumer: Consumer, given_up: list[TopicPartition]) -> None:
        offsets = [TopicPartition(topic, one.partition, 0) for one in given_up]
        consumer.commit(offsets=offsets, asynchronous=False)

    consumer.subscribe([topic], on_revoke=commit)
    while not consumer.assignment():
        consumer.poll(0.1)
    sys.stdout.write("joined\n")
    sys.stdout.flush()
    sys.stdin.readline()
    leave(consumer, is_static=bool(instance))


if __name__ == "__main__":
    main(*sys.argv[1:])
