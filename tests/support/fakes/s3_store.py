"""An S3 store on this machine: moto's server, a process of its own."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import fs

from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

_SERVES = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")
SECRET = "hush-hush"


@dataclass(frozen=True, kw_only=True)
class Store:
    """``url``: of the server; ``bucket``: the one there is."""

    url: str
    bucket: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables of a user of the store."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """This process is told of it meanwhile."""
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self.environment.items():
                environment.setenv(name, value)
            yield

    def uri(self, key: str) -> str:
        """Return the URI as users of Spark write it."""
        return f"s3a://{self.bucket}/{key}"

    def copy(self, directory: Path, key: str) -> str:
        """Copy a directory with all that is in it; the URI of the copy."""
        there = f"{self.bucket}/{key}"
        fs.copy_files(str(directory), there, destination_filesystem=self._files())
        return self.uri(key)

    def holds(self, key: str) -> Mapping[str, bytes]:
        """The files below a directory, by their paths from there."""
        top, files = f"{self.bucket}/{key}", self._files()
        found = files.get_file_info(fs.FileSelector(top, recursive=True, allow_not_found=True))
        return {
            info.path.removeprefix(f"{top}/"): files.open_input_file(info.path).read()
            for info in found
            if info.type == fs.FileType.File
        }

    @contextmanager
    def closed_to_all(self) -> Iterator[None]:
        """Withdraw all rights meanwhile."""
        self._let_in(b"0")
        try:
            yield
        finally:
            self._let_in(b"inf")

    def make_bucket(self) -> None:
        self._files(allow_bucket_creation=True).create_dir(self.bucket)

    def _let_in(self, requests: bytes) -> None:
        """So many without asking for rights, of which no request has any."""
        url, plain = f"{self.url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url, requests, plain)).close()

    def _files(self, *, allow_bucket_creation: bool = False) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=self.environment["AWS_ACCESS_KEY_ID"],
            secret_key=SECRET,
            region=self.environment["AWS_REGION"],
            endpoint_override=self.url,
            allow_bucket_creation=allow_bucket_creation,
        )


@contextmanager
def store(log: Path) -> Iterator[Store]:
    """One with an empty bucket. ``log``: for what the server says."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until(lambda: _SERVES.search(log.read_text()) is not None, PATIENCE_S, "the store")
        (url,) = _SERVES.findall(log.read_text())
        # A process that was told of one store goes on asking there: no other has this bucket.
        found = Store(url=url, bucket=f"histories-{url.rpartition(':')[2]}")
        found.make_bucket()
        yield found
    finally:
        process.terminate()
        process.wait()
