"""ZooKeeper, from the jars that PySpark ships: one server, or an ensemble.

It lies wholly on its node: ``zookeeper/zoo.cfg``, ``zookeeper/data`` (snapshots, transaction log,
``myid``), ``zookeeper/log4j2.properties``. Transactions are forced to disk before they are
acknowledged (ZooKeeper's default).
"""

import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ackproof.infra.clocks import FakeClock
from ackproof.infra.interface import Command, InfraError, Node, ZooKeeperCounters
from ackproof.infra.systems.server import NodeServer

CLIENT_PORT = 2181
_PEER_PORT = 2888
_ELECTION_PORT = 3888
_TICKS_PER_SESSION = 10
_TICK_MS_MIN = 20
_SYNC_LIMIT_TICKS = 10
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_EXPIRING = re.compile(rb"Expiring session 0x([0-9a-f]+)")
_ENDING = re.compile(rb"Submitting global closeSession request for session 0x([0-9a-f]+)")
"""What a server of an ensemble logs of a session whose end it proposes, be it the client's wish or,
just before it, its own."""

_KNOCK = (b"srvr", "Processing srvr command from /{address}:{port}")
"""What it logs (NIOServerCnxn.checkFourLetterWord) of each of its four-letter words, whether or not
it serves."""

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} - %m%n
logger.connections.name = org.apache.zookeeper.server.NIOServerCnxn
logger.connections.level = {connections}
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def zookeeper_server(
    node: Node,
    server_id: int,
    ensemble: Mapping[int, Node],
    session_timeout_ms: int,
    clock: FakeClock | None = None,
) -> NodeServer:
    """A ZooKeeper server, configured on its node and not started yet.

    Args:
        server_id: Its ``myid``, a key of ``ensemble``.
        ensemble: Every server of the ensemble, itself too.
        session_timeout_ms: What clients will ask for: it is granted, and so is anything from a
            fifth to the double of it.
        clock: What it shall go by, where that is not the true time.

    Raises InfraError without Java, without PySpark, or for a timeout that is too short.
    """
    home = node.directory / "zookeeper"
    files = {
        "zoo.cfg": configuration(node, ensemble, session_timeout_ms),
        "log4j2.properties": _LOGGING.replace("{connections}", "info" if clock else "warn"),
        "data/myid": f"{server_id}\n",
    }
    for name, content in files.items():
        node.write(home / name, content.encode())
    argv = [
        node.software.java,
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # quick to start; nothing here runs long enough to gain by C2
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        node.software.zookeeper_class_path,
        _MAIN,
        str(home / "zoo.cfg"),
    ]
    command = Command(name=node.name, argv=argv)
    # All listen for elections, for followers the leader alone.
    peer_ports = (_ELECTION_PORT, _PEER_PORT) if len(ensemble) > 1 else ()
    return NodeServer(
        node,
        server_id,
        CLIENT_PORT,
        command,
        peer_ports,
        clock=clock,
        knock=lambda: _KNOCK,
    )


def configuration(node: Node, ensemble: Mapping[int, Node], session_timeout_ms: int) -> str:
    """``zoo.cfg``. ZooKeeper grants sessions from 2 to 20 ticks (Administrator's Guide,
    minSessionTimeout and maxSessionTimeout) and expires them at whole ticks: a tick of a tenth of
    the timeout puts it in the middle of the one and keeps the other exact. Raises InfraError when
    that tick is too short to be kept."""
    tick_ms = session_timeout_ms // _TICKS_PER_SESSION
    if tick_ms < _TICK_MS_MIN:
        raise InfraError(
            f"zookeeper.session.timeout.ms={session_timeout_ms} is too short: "
            f"{_TICK_MS_MIN * _TICKS_PER_SESSION} or more"
        )
    settings: dict[str, object] = {
        "tickTime": tick_ms,
        "dataDir": node.directory / "zookeeper" / "data",
        "clientPort": CLIENT_PORT,
        "clientPortAddress": node.address,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr, mntr",
    }
    if len(ensemble) > 1:
        settings |= {"initLimit": _SYNC_LIMIT_TICKS, "syncLimit": _SYNC_LIMIT_TICKS}
        for peer_id, peer in ensemble.items():
            settings[f"server.{peer_id}"] = f"{peer.address}:{_PEER_PORT}:{_ELECTION_PORT}"
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def serves(server: NodeServer, timeout: float = 1.0) -> bool:
    """Whether it answers requests now (it may run without: no quorum yet)."""
    return mode(server.address, timeout) is not None


def mode(address: str, timeout: float = 1.0) -> str | None:
    """What the server at ``host:port`` is now: ``standalone``, ``leader`` or ``follower``; None
    while it does not serve."""
    return _word(address, b"srvr", timeout).get("Mode")


def counters(server: NodeServer, timeout: float = 2.0) -> ZooKeeperCounters | None:
    """What it has counted so far; None while it does not serve."""
    srvr, mntr = (_word(server.address, word, timeout) for word in (b"srvr", b"mntr"))
    if "Zxid" not in srvr or "zk_watch_count" not in mntr:
        return None
    return ZooKeeperCounters(
        server=server.name, zxid=int(srvr["Zxid"], 16), watches=int(mntr["zk_watch_count"])
    )


def expired(logs: Iterable[bytes]) -> frozenset[int]:
    """The sessions that ZooKeeper has expired, by the logs of all its servers
    (ZooKeeperServer.expire, submitRequestNow).

    A leader that has lost its followers expires in vain: nobody agrees, and the session lives on
    with the next leader. So a session of which a server was asked by its client to end it was not
    expired, whoever has logged that it expires it.
    """
    sessions, asked = set[bytes](), set[bytes]()
    for log in logs:
        expiring = Counter(_EXPIRING.findall(log))
        sessions |= expiring.keys()
        asked |= (Counter(_ENDING.findall(log)) - expiring).keys()
    return frozenset(int(session, 16) for session in sessions - asked)


def _word(address: str, word: bytes, timeout: float) -> Mapping[str, str]:
    """The answer to one of ZooKeeper's four-letter words, its lines as names and values; empty
    where there is none. (``srvr`` writes ``Mode: leader``, ``mntr`` has a tab between the two.)"""
    lines: dict[str, str] = {}
    host, _, port = address.rpartition(":")
    with (
        suppress(OSError),
        socket.create_connection((host, int(port)), timeout) as connection,
    ):
        connection.sendall(word)
        with connection.makefile("r", encoding="utf-8", errors="replace") as answer:
            for line in answer:
                name, _, value = line.partition("\t" if "\t" in line else ":")
                lines[name.strip()] = value.strip()
    return lines
