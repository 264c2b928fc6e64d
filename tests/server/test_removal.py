"""A deleted partition's files go without keeping anybody waiting."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from kio.schema.errors import ErrorCode

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import LOG_STARTS, Directory, Steps, read_offsets
from ackproof.broker.log.manager import LogManager
from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.server.replication.roles import StopReplica
from ackproof.broker.server.schedule import carry_out_later
from ackproof.broker.types import TopicPartition
from tests.support.builders.batches import NOW_MS, batch
from tests.support.worlds.replica_hosts import (
    DEADLINE_S,
    OF_NOBODY,
    hosts,
    leader_and_isr,
    run,
    stop_replica,
    until,
)

TP = TopicPartition("t", 0)


under_way: set[asyncio.Task[None]] = set()


def later(steps: Steps) -> None:
    def failed(error: Exception) -> None:
        raise error

    carry_out_later(steps, failed, under_way)


def test_a_log_is_gone_at_once_and_its_files_later(tmp_path: Path, caplog) -> None:
    async def story() -> None:
        loop, busy = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        loop.run_in_executor(None, busy.wait)
        logs = LogManager([tmp_path], lambda _: LogConfig(), later=later)
        logs.create(TP).append([batch()], 0, 0, NOW_MS)
        logs.delete(TP)
        (doomed,) = tmp_path.glob("*-delete")
        assert any(doomed.iterdir()), "not on the event loop"
        assert logs.create(TP).log_end_offset == 0
        busy.set()
        await until(lambda: not doomed.exists())
        logs.create(TP)
        logs.delete(TP)
        (doomed,) = tmp_path.glob("*-delete")
        doomed.rename(tmp_path / "no-more")
        await until(lambda: "could not be removed" in caplog.text)
        logs.close()

    run(story())


def test_remains_of_a_deleted_log_are_removed_at_the_next_start(tmp_path: Path) -> None:
    logs = LogManager([tmp_path], lambda _: LogConfig(), later=lambda _: None)
    logs.create(TP)
    logs.delete(TP)
    logs.close()
    assert list(tmp_path.glob("*-delete"))
    LogManager([tmp_path], lambda _: LogConfig()).close()
    assert not list(tmp_path.glob("*-delete"))


def test_begun_deletion_completes_though_the_controller_dies(tmp_path):
    """In the first fsync. Its successor asks again, and the next topic of the name begins at 0."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await host.call(leader_and_isr(TP, 1, 0, (1,), (1,)))
            await host.produce(TP, *[b"v"] * 200)
            host.partition(TP).log.advance_log_start(100)
            host.logs.checkpoint_log_starts()
            loop, busy = asyncio.get_running_loop(), threading.Event()
            loop.set_default_executor(ThreadPoolExecutor(1))
            loop.run_in_executor(None, busy.wait)
            controller = BrokerConnection("127.0.0.1", host.port, "controller-7")
            asked = asyncio.ensure_future(
                controller.call(stop_replica(TP, 0, delete=True), DEADLINE_S)
            )
            await until(lambda: TP not in host.logs.logs)
            before = host.connections_open
            await controller.close()
            await asyncio.gather(asked, return_exceptions=True)
            await until(lambda: host.connections_open < before)
            busy.set()
            word = stop_replica(TP, 0, delete=True, controller_epoch=2)
            answer = await host.call(word)
            assert [e.error_code for e in answer.partition_errors] == [ErrorCode.none]
            assert read_offsets(Directory(host.directory), LOG_STARTS) == {}
            assert not list(host.directory.glob("*-delete"))

    run(story())


def test_a_disk_that_does_not_rename_keeps_the_log_and_halts_the_broker(tmp_path):
    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            await host.call(leader_and_isr(TP, 1, 0, (1,), (1,)))
            home = host.directory / str(TP)
            home.rename(tmp_path / "elsewhere")
            for _ in range(2):
                answer = await host.call(stop_replica(TP, 0, delete=True))
                told = [e.error_code for e in answer.partition_errors]
                assert told == [ErrorCode.kafka_storage_error]
            assert {type(error) for error in host.halted} == {FileNotFoundError}
            (tmp_path / "elsewhere").rename(home)
            await host.replicas.stop_replicas([StopReplica(partition=TP, delete=True)], OF_NOBODY)
            assert not home.exists()

    run(story())


def test_a_disk_that_takes_no_new_log_halts_the_broker(tmp_path):
    """Whether the log cannot be made, or the id of its topic not be written."""

    async def story():
        async with hosts(tmp_path, 1) as brokers:
            host = brokers[1]
            (host.directory / str(TP)).touch()
            metadata = host.directory / "other-0" / "partition.metadata.tmp"
            metadata.mkdir(parents=True)
            for tp in (TP, TopicPartition("other", 0)):
                word = leader_and_isr(tp, 1, 0, (1,), (1,), topic_id=UUID(int=7))
                answer = await host.call(word)
                assert answer.topics[0].partition_errors[0].error_code is (
                    ErrorCode.kafka_storage_error
                )
            assert len(host.halted) == 2
            assert all(isinstance(error, OSError) for error in host.halted)

    run(story())
