"""``python -m ackproof.broker --config server.properties``: one broker, until SIGTERM or SIGINT.

Exit status: 0 after a clean shutdown, 1 when the broker failed, 2 when it cannot start with its
configuration.
"""

from ackproof.broker import quick_start  # isort: skip - before all else

import asyncio
import logging
import signal
import sys
from pathlib import Path

import click
import uvloop

from ackproof.broker.config import BrokerConfig, ConfigError, load
from ackproof.broker.log.disk import CorruptCheckpoint
from ackproof.broker.log.manager import ForeignLogDirectory, LogDirectoryInUse
from ackproof.broker.server.app import App
from ackproof.broker.server.zk.session import ZkError

quick_start.done()
logger = logging.getLogger("ackproof.broker")

FAILED = 1
BAD_CONFIG = 2


async def serve(config: BrokerConfig) -> None:
    """Run a broker until a signal tells it to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await App(config).run(stop)


@click.command()
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kafka's server.properties.",
)
def main(path: Path) -> None:
    """Run one broker of a ZooKeeper-mode Kafka cluster.

    Properties have Apache Kafka's names and defaults. SIGTERM hands leaderships over and closes
    the logs cleanly. Logs go to stderr.
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    try:
        config = load(path)
    except ConfigError as error:
        click.echo(error, err=True)
        sys.exit(BAD_CONFIG)
    try:
        uvloop.run(serve(config))
    except (ZkError, CorruptCheckpoint, ForeignLogDirectory, LogDirectoryInUse, OSError) as error:
        logger.error("Broker %d cannot start: %s", config.id, error)
        sys.exit(FAILED)
    except Exception:
        logger.exception("Broker %d failed", config.id)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
