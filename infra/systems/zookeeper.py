"""ZooKeeper's servers: their start, and the observation and control of the ensemble."""

import re
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError
from kazoo.interfaces import IAsyncResult

from ackproof.infra.api.capabilities import FakeClock
from ackproof.infra.api.interface import (
    Command,
    InfraError,
    Node,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.server import NodeServer
from ackproof.infra.systems.view import BROKERS, connect, disconnect, unconnected

CLIENT_PORT = 2181
_PEER_PORT = 2888
_ELECTION_PORT = 3888
_TICKS_PER_SESSION = 10
_TICK_MS_MIN = 20
_SYNC_LIMIT_TICKS = 10
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_EXPIRING = re.compile(rb"Expiring session 0x([0-9a-f]+)")
_ENDING = re.compile(rb"Submitting global closeSession request for session 0x([0-9a-f]+)")
"""The line of an ensemble's server for a session whose end it proposes.

The end is the client's wish or, right after the line about expiry, the server's own decision.
"""

_KNOCK = (b"srvr", "Processing srvr command from /{address}:{port}")
"""A four-letter word, and the line that a server logs for each (NIOServerCnxn.checkFourLetterWord).

It logs the line whether or not it serves.
"""

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
    """Return a ZooKeeper server, configured on its node and not started yet.

    Args:
        server_id: The server's ``myid``, a key of ``ensemble``.
        ensemble: Every server of the ensemble, this one too.
        session_timeout_ms: The timeout that clients request. It is granted, and so is anything from
            a fifth to the double of it.
        clock: The clock that it uses; None for the true time.

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
        "-XX:TieredStopAtLevel=1",  # quick to start; no server runs long enough to gain by C2
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        node.software.zookeeper_class_path,
        _MAIN,
        str(home / "zoo.cfg"),
    ]
    command = Command(name=node.name, argv=argv)
    # All servers listen for elections. Only the leader listens for followers.
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
    """Return the content of ``zoo.cfg``.

    ZooKeeper grants sessions from 2 to 20 ticks (Administrator's Guide, minSessionTimeout and
    maxSessionTimeout) and expires them at whole ticks. A tick of a tenth of the timeout puts it in
    the middle of that range and makes the expiry exact. Raises InfraError if that tick is too short
    to be kept.
    """
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
    """Return whether it answers requests now. Without a quorum it may run and not serve."""
    return mode(server.address, timeout) is not None


def mode(address: str, timeout: float = 1.0) -> str | None:
    """Return the mode of the server at ``host:port``: ``standalone``, ``leader`` or ``follower``.

    Return None while it does not serve.
    """
    return _word(address, b"srvr", timeout).get("Mode")


def counters(server: NodeServer, timeout: float = 2.0) -> ZooKeeperCounters | None:
    """Return its counters; None while it does not serve."""
    srvr, mntr = (_word(server.address, word, timeout) for word in (b"srvr", b"mntr"))
    if "Zxid" not in srvr or "zk_watch_count" not in mntr:
        return None
    return ZooKeeperCounters(
        server=server.name, zxid=int(srvr["Zxid"], 16), watches=int(mntr["zk_watch_count"])
    )


def expired(logs: Iterable[bytes]) -> frozenset[int]:
    """Return the sessions that ZooKeeper has expired, by the logs of all its servers.

    The lines are those of ZooKeeperServer.expire and submitRequestNow. A leader that has lost its
    followers may log an expiry that no quorum accepts; the session lives on with the next leader. A
    session that its client asked a server to end therefore counts as not expired, whichever server
    has logged an expiry.
    """
    sessions, asked = set[bytes](), set[bytes]()
    for log in logs:
        expiring = Counter(_EXPIRING.findall(log))
        sessions |= expiring.keys()
        asked |= (Counter(_ENDING.findall(log)) - expiring).keys()
    return frozenset(int(session, 16) for session in sessions - asked)


def _word(address: str, word: bytes, timeout: float) -> Mapping[str, str]:
    """Return the answer to one of ZooKeeper's four-letter words, its lines as names and values.

    It is empty without an answer. ``srvr`` writes ``Mode: leader``, and ``mntr`` has a tab between
    the two.
    """
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


# --- the ensemble -----------------------------------------------------------------------------
#
# Control of ZooKeeper's servers and sessions, from outside of the cluster.
#
# A client that knows the id and the password of a session can continue it and end it. ZooKeeper's
# FAQ expires a session for a test in this way. The id of a broker's session is in ZooKeeper, as the
# owner of its registration. The password follows from it (:func:`password`): ZooKeeper computes it
# from the id whenever it needs it, and keeps none. So nothing of the broker is needed, and every
# broker's session can be ended.


_WITHIN_S = 10.0
_FAR_AHEAD = 2**30
"""A number that no client's requests reach."""
_SUPER_SECRET = 0xB3415C00
_JAVA_MULTIPLIER, _JAVA_INCREMENT, _JAVA_MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def password(session: int) -> bytes:
    """Return the password that ZooKeeper requires to continue a session.

    It is 16 bytes of a ``java.util.Random`` whose seed is the id, XORed with a constant that the
    source calls a secret (ZooKeeperServer.generatePasswd).
    """
    state = (session ^ _SUPER_SECRET ^ _JAVA_MULTIPLIER) & _JAVA_MASK
    words = []
    for _ in range(4):
        state = (state * _JAVA_MULTIPLIER + _JAVA_INCREMENT) & _JAVA_MASK
        words.append(state >> 16)
    return struct.pack("<4I", *words)


class ZooKeeperEnsemble:
    """An ``infra.api.metadata.Ensemble`` with connections of its own.

    Args:
        servers: All servers: the address of each, ``host:port``, by its name.
        session_timeout_ms: The timeout that the harness requests for its own sessions and for those
            that it ends. It is that of the brokers, so that a failed attempt changes none.
    """

    def __init__(self, servers: Mapping[str, str], session_timeout_ms: int) -> None:
        self._servers = servers
        self._zookeeper_connect = ",".join(servers.values())
        self._session_timeout_s = session_timeout_ms / 1000
        self._occupying: dict[int, KazooClient] = {}
        self._ours: frozenset[int] = frozenset()

    @property
    def ours(self) -> frozenset[int]:
        return self._ours

    def modes(self) -> Mapping[str, str]:
        found = zip(self._servers, on_all(mode, list(self._servers.values())), strict=True)
        return {name: what for name, what in found if what is not None}

    def end_session(self, session: int) -> bool:
        deadline = monotonic() + _WITHIN_S
        ended = False
        # kazoo does not report whether the close arrived. The broker's client, on its way back to
        # its session, may have made ZooKeeper drop this connection first. The close is therefore
        # repeated until ZooKeeper does not know the session any more.
        while self._closed(session):
            ended = True
            if monotonic() > deadline:
                raise ViewUnavailable(f"session 0x{session:x} still exists after {_WITHIN_S:g} s")
        self._part(session)
        return ended

    def occupy(self, broker: int) -> bool:
        if broker in self._occupying:
            return False
        path = f"{BROKERS}/{broker}"
        deadline = monotonic() + _WITHIN_S
        client = connect(self._zookeeper_connect, self._session_timeout_s, _WITHIN_S)
        self._occupying[broker] = client
        try:
            taken = self._take(_Registration(client, path, deadline))
        except (KazooException, client.handler.timeout_exception) as error:
            raise ViewUnavailable(f"{path} could not be occupied: {error!r}") from error
        if not taken:
            self.vacate(broker)
        return taken

    def vacate(self, broker: int) -> None:
        client = self._occupying.pop(broker, None)
        if client is not None:
            disconnect(client)

    def close(self) -> None:
        """Vacate every registration. Idempotent."""
        for broker in list(self._occupying):
            # If ZooKeeper is silent, or gone, the session expires with it.
            with suppress(KazooException):
                self.vacate(broker)

    def _take(self, registration: "_Registration") -> bool:
        found = registration.read()
        if found is None or found[1] in self._ours:
            return False
        content, owner = found
        ended = []
        while owner not in self._ours:
            self._closed(owner)
            ended.append(owner)
            self._ours |= {registration.session()}
            # Between the end of its session and the new node, the broker may have registered by a
            # new session. Then that one is ended, too.
            owner = registration.write(content) or owner
        for session in ended:
            self._part(session)
        return True

    def _part(self, session: int) -> None:
        """Make every server drop the connections of a session that is over.

        1. The harness's connection drops the broker's.
        2. The broker comes back to its session a moment before the close arrives.
        3. If it comes to the same server, that one only considers the connection that sent the
           close, and leaves the other open.
        4. The broker stays connected in a session that is over, and never registers again.

        A later client of the session is turned away, and takes the place of the former one.
        """
        for name in self.modes():
            self._closed(session, self._servers[name])

    def _closed(self, session: int, address: str | None = None) -> bool:
        """Continue a session, at any server or at that one, and close it.

        Return False if ZooKeeper did not know it any more. kazoo has then begun another one, which
        is closed.
        """
        identity = session, password(session)
        where = address or self._zookeeper_connect
        client = unconnected(where, self._session_timeout_s, identity)
        try:
            # The method is not start(), which takes a connection that the session's client has
            # broken again for none.
            if not client.start_async().wait(_WITHIN_S):
                raise ViewUnavailable(f"ZooKeeper did not answer within {_WITHIN_S:g} s")
            held = client.client_id  # None while the connection is broken
            # A server distinguishes the requests of a session by their numbers alone. The broker,
            # back at another server, begins to count at 1, as this client does. Its first request
            # would be taken for this close, and answered with nonsense. Its connection would stay
            # open for good, in a session that is over.
            client._connection._xid = _FAR_AHEAD
            return held is None or held[0] == session
        finally:
            disconnect(client)


class _Registration:
    """The znode of a broker that the harness occupies.

    Args:
        client: The client that becomes the owner.
        deadline: A time of :func:`time.monotonic`. A missing answer raises the timeout of kazoo's
            handler, and a refusal KazooException.
    """

    def __init__(self, client: KazooClient, path: str, deadline: float) -> None:
        self._client = client
        self._path = path
        self._deadline = deadline

    def session(self) -> int:
        """Return the client's session."""
        known = self._client.client_id
        if known is None:
            raise ConnectionLoss
        session: int = known[0]
        return session

    def read(self) -> tuple[bytes, int] | None:
        """Return its content and its owner, or None if it does not exist."""
        try:
            content, stat = self._answer(self._client.get_async(self._path))
        except NoNodeError:
            return None
        return content, stat.ephemeralOwner

    def write(self, content: bytes) -> int | None:
        """Write it, unless it exists. Return its owner, or None if it has gone meanwhile."""
        try:
            _, stat = self._answer(
                self._client.create_async(self._path, content, ephemeral=True, include_data=True)
            )
        except NodeExistsError:
            found = self.read()
            return None if found is None else found[1]
        owner: int = stat.ephemeralOwner
        return owner

    def _answer(self, result: IAsyncResult) -> Any:
        return result.get(timeout=max(0.0, self._deadline - monotonic()))
