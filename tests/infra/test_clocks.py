"""The agent's clocks: what is written for libfaketime, and what a server says that it is."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.infra.agent import clocks
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

HERE = "127.0.0.1"
HOUR_MS = 3_600_000
LINE = "Processing srvr command from /{address}:{port}"


LIBRARY = b"\x7fELF\0nanosleep\0clock_nanosleep\0clock_gettime\0"


def made(tmp_path: Path, name: str = "clock") -> list[str]:
    """A clock, and a libfaketime for it."""
    place = tmp_path / "usr" / "faketime"
    place.mkdir(parents=True)
    (place / "libfaketimeMT.so.1").write_bytes(LIBRARY)
    return clocks.make(str(tmp_path / name), [str(tmp_path / "nowhere"), str(tmp_path / "*" / "*")])


class TestWhatIsWritten:
    @pytest.mark.parametrize(
        ("offset_ms", "text"),
        [(0, "+0"), (HOUR_MS, "+3600.000"), (-1, "-0.001"), (-5_250, "-5.250")],
    )
    def test_of_a_clock_that_is_set(self, tmp_path: Path, offset_ms: int, text: str) -> None:
        made(tmp_path)
        assert shown(tmp_path) == "+0"
        clocks.run(str(tmp_path / "clock"), offset_ms, 1.0)
        assert shown(tmp_path) == text

    @pytest.mark.parametrize("rate", [3.0, 0.5])
    def test_of_a_clock_at_another_pace(self, tmp_path: Path, rate: float) -> None:
        """Until it is set: then no line is written there any more."""
        directory = str(tmp_path / "clock")
        made(tmp_path)
        began = time.monotonic()
        clocks.run(directory, -HOUR_MS, rate)
        first = float(shown(tmp_path))
        assert abs(first - time.time() + HOUR_MS / 1000) < HOUR_MS / 2000
        gained = []

        def a_second_later() -> bool:
            now, passed = float(shown(tmp_path)), time.monotonic() - began
            gained.append((now - first, passed))
            return passed > 1

        wait_until(a_second_later, PATIENCE_S, "a second to pass")
        moments = [moment for moment, _ in gained]
        assert moments == sorted(moments), "it never goes back"
        assert 0 < moments[-1] <= rate * gained[-1][1] + 0.001
        clocks.run(directory, 0, 1.0)
        assert shown(tmp_path) == "+0"
        assert not [thread for thread in threading.enumerate() if thread.name == "clock"]

    def test_loaded_library_does_not_change_sleeping(self, tmp_path: Path) -> None:
        under = made(tmp_path)
        assert f"LD_PRELOAD={tmp_path}/clock/libfaketimeMT.so.1" in under
        loaded = (tmp_path / "clock" / "libfaketimeMT.so.1").read_bytes()
        assert loaded == LIBRARY.replace(b"\0clock_nanosleep", b"\0xlock_nanosleep")

    @pytest.mark.parametrize("name", ["a b", "a:b"])
    def test_directory_unnameable_to_the_loader_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(RefusedByNode, match="no blanks and no colons"):
            made(tmp_path, name)


def test_missing_libfaketime_is_reported_with_its_package() -> None:
    assert "apt-get install libfaketime" in str(clocks.obstacle(["/nowhere/*"]))


class Telling:
    """A server that logs each connection, by a clock that is ``offset_ms`` off."""

    def __init__(self, log: Path, offset_ms: int, line: str = LINE) -> None:
        self._log, self._offset_ms, self._line = log, offset_ms, line
        self._listener = socket.create_server((HERE, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, (address, port) = self._listener.accept()
            except OSError:
                return
            with connection:
                assert connection.recv(4) == b"srvr"
                line = self._line.format(address=address, port=port)
                when = datetime.fromtimestamp(time.time() + self._offset_ms / 1000, UTC)
                stamp = f"{when:%Y-%m-%dT%H:%M:%S},{when.microsecond // 1000:03}"
                with self._log.open("a") as log:
                    log.write(f"{stamp} INFO  NIOServerCnxn - {line}\n")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """With a line that was written when another server was asked."""
    path = tmp_path / "log"
    path.write_text("2001-01-01T00:00:00,000 INFO - " + LINE.format(address=HERE, port=1) + "\n")
    return path


class TestWhatAServerSays:
    @pytest.mark.parametrize("offset_ms", [0, HOUR_MS, -HOUR_MS, 300])
    def test_offset_is_compared_with_the_true_time(self, log: Path, offset_ms: int) -> None:
        with closing(Telling(log, offset_ms)) as server:
            before, first, second = time.monotonic(), ask(server.port, log), ask(server.port, log)
        took_ms = (time.monotonic() - before) * 1000
        for told in (first, second):
            assert abs(told["offset_ms"] - offset_ms) <= told["bound_ms"] <= took_ms / 2 + 1
        assert second["at_ms"] > first["at_ms"]

    @pytest.mark.parametrize("line", ["Processing srvr command from /{address}:1", "nothing"])
    def test_must_be_an_answer_to_us(self, log: Path, line: str) -> None:
        with (
            closing(Telling(log, 0, line)) as server,
            pytest.raises(RefusedByNode, match="does not say"),
        ):
            ask(server.port, log, within=0.3)

    def test_clock_of_an_unreachable_server_is_refused(self, log: Path) -> None:
        with closing(socket.socket()) as unanswered:
            unanswered.bind((HERE, 0))
            with pytest.raises(RefusedByNode, match="its time could not be read"):
                ask(unanswered.getsockname()[1], log)


def ask(port: int, log: Path, within: float = PATIENCE_S) -> dict[str, float]:
    return clocks.reported_time(HERE, port, b"srvr".hex(), LINE, str(log), within)


def shown(tmp_path: Path) -> str:
    return (tmp_path / "clock" / "clock").read_text().strip()
