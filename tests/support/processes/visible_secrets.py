"""Detection of visible secrets: on the command lines and in the environments of processes, and in
files, also compressed ones of Parquet."""

import contextlib
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq

_EVERY_S = 0.2


class Watch:
    """A watch over processes. ``arguments`` and ``environments``: secrets seen there; ``programs``:
    the command lines of all observed processes."""

    def __init__(self) -> None:
        self.arguments: set[str] = set()
        self.environments: set[str] = set()
        self.programs: set[str] = set()

    def look(self, secrets: Collection[str]) -> None:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                said = " ".join(process.cmdline())
                self.programs.add(said)
                self.arguments.update(one for one in secrets if one in said)
                told = "\n".join(process.environ().values())
                self.environments.update(one for one in secrets if one in told)


@contextlib.contextmanager
def watching(secrets: Collection[str], watch: Watch | None = None) -> Iterator[Watch]:
    """Look at all processes of this machine, several times a second."""
    watch = watch or Watch()
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(_EVERY_S):
            watch.look(secrets)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def in_files(directory: Path, secrets: Collection[str]) -> dict[str, list[str]]:
    """The files below ``directory`` in which secrets stand, by secret."""
    contents = {path: _content(path) for path in directory.rglob("*") if path.is_file()}
    assert contents
    found = {
        one: [str(path) for path, content in contents.items() if one.encode() in content]
        for one in secrets
    }
    return {one: paths for one, paths in found.items() if paths}


def _content(path: Path) -> bytes:
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pydict()).encode()
    return path.read_bytes()
