"""``ackproof live``, hidden: the live page and the metrics of a run, in a process beside it."""

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from ackproof.harness.commands.errors import fail
from ackproof.harness.exit_status import ExitStatus
from ackproof.infra.agent.parents import dying_with

LOCALHOST = "127.0.0.1"
METRICS = "/metrics"
LOG = "live.log"
"""The log of that process, in the results. It exists only if there is something to report."""
_PORT_MAX = 65535
_FREE_WITHIN_S = 3.0
"""The seconds that a port has to become free. The process beside a run that has just ended may
still have it."""
_AGAIN_S = 0.1
_NICER = 10
"""The niceness of the process beside a run, relative to the run."""


class WatchPort(click.ParamType[int]):
    """The value of ``--watch``, which may be left out."""

    name = "port"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the port. Fails with the remedy for a campaign that follows the option."""
        text = str(value)
        if not (text.isascii() and len(text) <= 5 and text.isdigit() and int(text) <= _PORT_MAX):
            self.fail(
                f"{text!r} is not a port from 0 to {_PORT_MAX}; without a port, write the campaign "
                "first: ackproof run CAMPAIGN --watch",
                param,
                ctx,
            )
        return int(text)


def listen(option: str, address: str, port: int, within_s: float = _FREE_WITHIN_S) -> socket.socket:
    """Return a socket that listens. Ends the command with status 2 if the address is wrong, or the
    port is not free within that time."""
    due = time.monotonic() + within_s
    while True:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return socket.create_server((address, port), family=family)
        except OSError as refused:
            if refused.errno == errno.EADDRINUSE and time.monotonic() < due:
                time.sleep(_AGAIN_S)
                continue
            code = refused.errno or 0  # negative, and not the system's, for an unknown name
            why = os.strerror(code) if code > 0 else str(refused.strerror).partition(" (")[0]
            fail(f"{option}: cannot listen on {address}:{port}: {why}", ExitStatus.USAGE)


def sockets(
    watch: int | None, metrics_port: int | None, metrics_address: str
) -> tuple[socket.socket | None, socket.socket | None]:
    """Return the sockets of the live page and of the metrics, as the options ask for them. Ends as
    :func:`listen`."""
    return (
        None if watch is None else listen("--watch", LOCALHOST, watch),
        None if metrics_port is None else listen("--metrics-port", metrics_address, metrics_port),
    )


def _url(listening: socket.socket, path: str) -> str:
    """Return the address under which a socket of this machine can be opened."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def start(directory: Path, watched: socket.socket | None, scraped: socket.socket | None) -> None:
    """Start the process that serves the run with these results on these sockets, and close them
    here. It is asked to end when this process ends, or the program that this one becomes. Without a
    socket, nothing is started."""
    options: list[str] = []
    descriptors: list[int] = []
    for option, listening in (("--watched", watched), ("--scraped", scraped)):
        if listening is not None:
            options += [option, str(listening.fileno())]
            descriptors.append(listening.fileno())
    if not descriptors:
        return
    if watched is not None:
        click.echo(f"live page: {_url(watched, '/')}")
    if scraped is not None:
        click.echo(f"metrics: {_url(scraped, METRICS)}")
    subprocess.Popen(
        [*_beside(), "live", str(directory), *options],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for the run, which goes on for a while
    )
    for listening in filter(None, (watched, scraped)):
        listening.close()


def _beside() -> Sequence[str]:
    program = [sys.executable, "-P", "-m", "ackproof.harness"]
    return [*dying_with(os.getpid(), "TERM"), *program]


@click.command(hidden=True)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--watched", type=int, help="Descriptor of the socket for the live page.")
@click.option("--scraped", type=int, help="Descriptor of the socket for the metrics.")
def live(directory: Path, watched: int | None, scraped: int | None) -> None:
    """Serve the live page and the metrics of the run with results in DIRECTORY."""
    from ackproof.harness.report.live import server  # aiohttp takes a while to import

    logging.basicConfig(
        handlers=[logging.FileHandler(directory / LOG, delay=True)],
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    os.nice(_NICER)  # a page that is opened late reads the whole history, which costs a while
    asyncio.run(server.serve(directory, _socket(watched), _socket(scraped)))


def _socket(descriptor: int | None) -> socket.socket | None:
    return None if descriptor is None else socket.socket(fileno=descriptor)
