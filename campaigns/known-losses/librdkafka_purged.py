"""librdkafka loses a record of a committed transaction: one Kafka broker, a proxy, confluent-kafka.

    python librdkafka_purged.py HOST:PORT [--late] [--flush]

HOST:PORT as the broker's advertised.listeners have it. The first produce request has an accident:
the broker writes it and the answer is lost; with ``--late`` the broker gets it only when the next
transaction has begun. Its connection ends, the transaction is aborted, the next one committed.
``--flush`` is what avoids it: flush before aborting. Exits with 1 if what is read is not what was
committed. librdkafka-purged-transaction.md beside it explains the output."""

# ruff: noqa: T201 - what it tells is what it is for
import asyncio
import re
import sys
import threading
import uuid
from argparse import ArgumentParser

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60.0
PRODUCE = b"\0\0"
"""The API key, with which a request begins."""
BATCH = re.compile(rb"\0{8}.{8}\x02.{26}(.{8})(.{2})(.{4})", re.DOTALL)
"""Base offset (0 in requests) and magic number of a batch; producer id, epoch, base sequence."""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def receive(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


async def ask(broker: Connection, request: bytes) -> bytes:
    broker[1].write(len(request).to_bytes(4) + request)
    return await receive(broker[0])


def batch(request: bytes) -> str:
    found = BATCH.search(request)
    assert found, "a produce request without a batch"
    return "producer {}, epoch {}, base sequence {}".format(*map(int.from_bytes, found.groups()))


class Proxy:
    """Stands for the broker, in a thread of its own. After the accident it takes no connections
    until somebody sets ``cut`` to False."""

    def __init__(self, host: str, port: int, *, late: bool) -> None:
        self.host, self.port, self.late = host, port, late
        self.own_port = 0
        self.accidents = 0
        self.cut = False
        self.refused = threading.Event()
        """The client has noticed that its connection is gone: it tried another."""
        self.held: list[tuple[Connection, bytes]] = []
        listens = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(listens)), daemon=True).start()
        assert listens.wait(WAIT_S)

    async def serve(self, listens: threading.Event) -> None:
        server = await asyncio.start_server(self.connected, self.host)
        self.own_port = server.sockets[0].getsockname()[1]
        listens.set()
        await server.serve_forever()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.cut:
                self.refused.set()
            else:
                await self.carry(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # One of the sides is gone, and so is the other then.
        finally:
            writer.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker = await asyncio.open_connection(self.host, self.port)
        # In metadata, and where a coordinator is told, the port follows the host.
        theirs = self.host.encode() + self.port.to_bytes(4)
        ours = self.host.encode() + self.own_port.to_bytes(4)
        while True:
            request = await receive(reader)
            if request.startswith(PRODUCE):
                print("  sent:", batch(request))
                while self.held:
                    there, late = self.held.pop()
                    await ask(there, late)
                    print("  overtaken by the late one:", batch(late))
                if not self.accidents:
                    self.accidents, self.cut = 1, True
                    if self.late:
                        self.held.append((broker, request))
                    else:
                        await ask(broker, request)
                    return
            answer = (await ask(broker, request)).replace(theirs, ours)
            writer.write(len(answer).to_bytes(4) + answer)


def report(error: KafkaError | None, message: Message) -> None:
    outcome = error.name() if error else f"acknowledged, offset {message.offset()}"
    print(f"  {message.value()}, partition {message.partition()}: {outcome}")


def read(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    properties = {"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": isolation}
    consumer = Consumer({**properties, "enable.partition.eof": True})
    values = []
    for partition in (0, 1):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (message := consumer.poll(WAIT_S)) and not message.error():
            values.append(message.value())
    consumer.close()
    print(f"{isolation}: {values}")
    return values


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("broker", metavar="HOST:PORT")
    parser.add_argument("--late", action="store_true", help="the request itself comes late")
    parser.add_argument("--flush", action="store_true", help="flush before aborting")
    options = parser.parse_args()
    host, _, port = options.broker.rpartition(":")
    topic = f"purged-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": options.broker})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(WAIT_S)
    proxy = Proxy(host, int(port), late=options.late)
    producer = Producer(
        {
            "bootstrap.servers": f"{host}:{proxy.own_port}",
            "transactional.id": topic,
            # With all brokers gone, of one, it would forget them, and the coordinator with them.
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(WAIT_S)
    print("a transaction, to be aborted")
    producer.begin_transaction()
    producer.produce(topic, "aborted", partition=0, on_delivery=report)
    assert proxy.refused.wait(WAIT_S), "no produce request came"
    if options.flush:
        proxy.cut = False
        producer.flush(WAIT_S)
    producer.abort_transaction(WAIT_S)
    proxy.cut = False
    print("the next one, to be committed")
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, f"committed-{partition}", partition=partition, on_delivery=report)
        producer.flush(WAIT_S)
    producer.commit_transaction(WAIT_S)
    read(options.broker, topic, "read_uncommitted")
    return int(read(options.broker, topic, "read_committed") != [b"committed-0", b"committed-1"])


if __name__ == "__main__":
    sys.exit(main())
