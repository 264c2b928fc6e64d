"""Starting cases inside fresh namespaces, as the user we are and as one without privileges."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from tests.support.processes.deadlines import PATIENCE_S, TEST_S

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
MARK = "ACKPROOF_TEST_MARK"
NOBODY = 65534
AS_EACH_USER = pytest.mark.parametrize("inside", ["ourselves", "unprivileged"], indirect=True)
"""A test that ``make test`` runs without privileges, too: there the namespaces are a user's own."""


@dataclass(frozen=True)
class Inside:
    """Cases started by one test. Every process below carries ``mark`` in its environment."""

    prefix: Sequence[str]
    python: str
    environ: dict[str, str]
    directory: Path
    cases: Path
    mark: str
    root: bool
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def scratch(self) -> Path:
        return self.directory / "scratch"

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def sibling(self) -> "Inside":
        """A second run beside this one."""
        return replace(self, directory=self.directory / "sibling", mark=self.mark + "-sibling")

    def argv(self, file: str, function: str) -> list[str]:
        case = [str(HERE / "run_case.py"), self.mark, str(self.scratch)]
        return [*self.prefix, self.python, *case, str(self.cases / file), function]

    def start(
        self, file: str, function: str, *, ignored: Sequence[signal.Signals] = (), **options: object
    ) -> subprocess.Popen[bytes]:
        """``ignored``: these signals are ignored from the start, as a shell may leave them."""
        self.directory.mkdir(exist_ok=True)
        ignoring = [f"--ignore-signal={number.name.removeprefix('SIG')}" for number in ignored]
        run = subprocess.Popen(
            ["env", *ignoring, *self.argv(file, function)],
            env=self.environ,
            cwd=self.directory,
            **options,
        )
        self.started.append(run)
        return run

    def check(self, file: str, function: str) -> None:
        """Run a case; its failure is ours, with its output."""
        done = subprocess.run(
            self.argv(file, function),
            env=self.environ,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=TEST_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.processes() == []

    def processes(self) -> list[int]:
        """Living processes of this machine that carry the mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found


@contextmanager
def inside_as(who: str, cases: Path) -> Iterator[Inside]:
    """``who``: ``ourselves`` or ``unprivileged``. ``cases``: the directory of the files with cases.
    At the end nothing that was started runs on."""
    prefix: list[str] = []
    python = sys.executable
    root = os.geteuid() == 0
    if who == "unprivileged":
        if not root:
            pytest.skip("we are unprivileged already")
        root = False
        # By way of env: setpriv itself still has root's privileges when it looks up a program.
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env"]
        python = _python_for_all(prefix)
        if subprocess.run(
            [*prefix, "test", "-r", PROJECT / "pyproject.toml"], check=False
        ).returncode:
            pytest.skip(f"other users cannot read {PROJECT}")
    # pytest's own temporary directories are closed to other users.
    directory = Path(tempfile.mkdtemp(prefix="ackproof-test-", dir="/tmp"))
    directory.chmod(0o777)
    mark = uuid.uuid4().hex
    site = [path for path in sys.path if path.endswith("-packages")]
    environ = {
        **os.environ,
        MARK: mark,
        "ACKPROOF_STATE_DIRECTORY": str(directory / "state"),
        "HOME": str(directory),
        "PYTHONPATH": ":".join([str(PROJECT), *site]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    case = Inside(prefix, python, environ, directory, cases, mark, root)
    try:
        yield case
    finally:
        for run in case.started:
            run.kill()
            run.wait(PATIENCE_S)
        for pid in case.processes():  # only where what is tested is broken
            psutil.Process(pid).kill()
        shutil.rmtree(directory)


def _python_for_all(prefix: Sequence[str]) -> str:
    """An interpreter of our version that the unprivileged user may run."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{ours}", f"/usr/local/bin/python{ours}"):
        tried = subprocess.run(
            [*prefix, python, "-c", "import socket"], capture_output=True, check=False
        )
        if tried.returncode == 0:
            return python
    pytest.skip(f"no Python {ours} that an unprivileged user may run")
