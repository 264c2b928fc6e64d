"""A deleted partition's files go without keeping anybody waiting."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from batches import NOW_MS, batch
from hosts import run, until

from broker.log.config import LogConfig
from broker.log.disk.steps import Steps
from broker.log.manager import LogManager
from broker.server.schedule import carry_out_later
from broker.types import TopicPartition

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


def test_what_is_left_of_it_goes_at_the_next_start(tmp_path: Path) -> None:
    logs = LogManager([tmp_path], lambda _: LogConfig(), later=lambda _: None)
    logs.create(TP)
    logs.delete(TP)
    logs.close()
    assert list(tmp_path.glob("*-delete"))
    LogManager([tmp_path], lambda _: LogConfig()).close()
    assert not list(tmp_path.glob("*-delete"))
