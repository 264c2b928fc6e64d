"""A system of one's own: the bundled broker with a short session timeout, 4 s or as many as asked.

With it a dead leader is replaced within seconds. The price is that a broker which pauses for as
long loses its leadership.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from ackproof.infra.api.interface import Node
from ackproof.infra.systems.bundled import bundled_properties, knock
from ackproof.infra.systems.on_zookeeper import BuildOnZooKeeper, Program
from ackproof.infra.systems.product import Product

_SECONDS, _MIN, _MAX = "4", 2, 60


def _command(node: Node, config: PurePosixPath) -> Sequence[str]:
    """Return the broker's command line on its node, where its ``server.properties`` is already."""
    return [node.software.python, "-P", "-m", "ackproof.broker", "--config", str(config)]


def _build(version: str | None) -> BuildOnZooKeeper:
    """Return what a campaign names: ``brisk``, or ``brisk:SECONDS``."""
    seconds = _SECONDS if version is None else version
    if not seconds.isdecimal() or not _MIN <= int(seconds) <= _MAX:
        raise ValueError(f"a session of {_MIN} to {_MAX} seconds (brisk:6), not {seconds!r}")
    return BuildOnZooKeeper(
        text="brisk" if version is None else f"brisk:{int(seconds)}",
        program=Program(command=_command, knock=knock),
        properties=bundled_properties(),
        defaults={"zookeeper.session.timeout.ms": f"{int(seconds)}000"},
        without_transactions="the bundled broker does not support transactions",
    )


BRISK = Product(
    name="brisk",
    summary="the bundled broker with a session timeout of 4 s, or of so many seconds",
    build=_build,
    forms=("brisk", "brisk:SECONDS"),
)
