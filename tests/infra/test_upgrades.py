"""Two releases of Apache Kafka: their build, and what servers report of the change between them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ackproof.infra.api.capabilities import MigrationState, Stage, UpgradeRefused
from ackproof.infra.api.interface import Command
from ackproof.infra.systems import as_name, parse, pinned
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.metadata import schemas_of
from ackproof.infra.systems.kafka.migration import KRaftMigration, MigrationZnodes
from ackproof.infra.systems.kafka.product import KafkaUpgrade
from ackproof.infra.systems.kafka.releases import Release, apache_version
from ackproof.infra.systems.kafka.upgrades import ProtocolChange, protocol_of
from ackproof.infra.systems.product import MetadataQuorum

OLD, NEW = Release(version="2.8.2"), Release(version="3.9.2")
TWO = "kafka:3.9.1..kafka:4.1.1"
"""Two releases whose descriptions are shipped."""


@dataclass
class LoggingServer:
    """A server that has written a log, and is stopped unless it ``runs``."""

    name: str = "broker-1"
    written: bytes | None = None
    runs: bool = False
    commands: list[Command] = field(default_factory=list)

    def exited(self) -> bool:
        return not self.runs

    def log(self) -> bytes:
        if self.written is None:
            raise FileNotFoundError(self.name)
        return self.written

    def use(self, command: Command) -> None:
        self.commands.append(command)

    def starts(self, version: str, protocol: str) -> None:
        """Write the lines of a broker that starts."""
        lines = (
            f"2026-11-29 10:10:24,148 INFO AppInfoParser: Kafka version: {version} \n"
            f"\tinter.broker.protocol.version = {protocol}\n"
        )
        self.written = (self.written or b"") + lines.encode()


def change(server: LoggingServer) -> ProtocolChange:
    """Return a change of the one server."""
    servers: Mapping[str, Any] = {server.name: server}

    def command(_server: object, stage: Stage) -> Command:
        return Command(name=server.name, argv=(stage.value,))

    return ProtocolChange(OLD, NEW, lambda: servers, command)


def test_server_reports_the_version_that_it_logged_since_its_change() -> None:
    server = LoggingServer()
    upgrade = change(server)
    assert (upgrade.stage("broker-1"), upgrade.reported("broker-1")) == (Stage.BEFORE, None)
    server.starts("2.8.2", "2.8-IV1")
    assert upgrade.reported("broker-1") == "2.8.2"
    upgrade.install("broker-1", Stage.AFTER)
    assert upgrade.stage("broker-1") is Stage.AFTER
    assert server.commands[-1].argv == ("after",)
    assert upgrade.was("broker-1") == "2.8.2"
    assert upgrade.reported("broker-1") is None, "the line of the old process proves nothing"
    server.starts("3.9.2", "2.8-IV1")
    assert upgrade.reported("broker-1") == "3.9.2"


def test_running_server_is_not_changed() -> None:
    server = LoggingServer(written=b"", runs=True)
    upgrade = change(server)
    with pytest.raises(RuntimeError, match="broker-1 runs: its programs are not exchanged"):
        upgrade.install("broker-1", Stage.AFTER)
    assert (server.commands, upgrade.stage("broker-1")) == ([], Stage.BEFORE)


def test_broker_on_zookeeper_is_final_without_the_former_protocol() -> None:
    server = LoggingServer(written=b"")
    upgrade = change(server)
    upgrade.install("broker-1", Stage.AFTER)
    server.starts("3.9.2", "2.8-IV1")
    assert upgrade.obstacle("broker-1", Stage.BEFORE) is None
    assert upgrade.finality("broker-1") == (False, "inter.broker.protocol.version 2.8-IV1")
    upgrade.install("broker-1", Stage.FINAL)
    why = upgrade.obstacle("broker-1", Stage.BEFORE)
    assert why is not None, "from the moment at which it may be"
    assert "Kafka does not go back" in why
    assert upgrade.finality("broker-1") == (False, "inter.broker.protocol.version unknown")
    server.starts("3.9.2", "3.9-IV0")
    assert upgrade.finality("broker-1") == (True, "inter.broker.protocol.version 3.9-IV0")
    with pytest.raises(UpgradeRefused):
        upgrade.finalize(1.0)


def test_broker_that_joins_has_the_release_of_the_first() -> None:
    server = LoggingServer(written=b"")
    upgrade = change(server)
    assert {upgrade.first_stage(f"broker-{number}") for number in (1, 2)} == {Stage.BEFORE}
    upgrade.install("broker-1", Stage.AFTER)
    assert upgrade.first_stage("broker-4") is Stage.AFTER
    assert upgrade.stage("broker-4") is Stage.AFTER
    assert upgrade.stage("broker-2") is Stage.BEFORE, "it was there before"


@pytest.mark.parametrize(
    ("roles", "enabled", "mode"),
    [
        ("", "false", "ZooKeeper"),
        ("", "true", "migration mode"),
        ("broker", "false", "KRaft"),
    ],
)
def test_server_reports_its_mode_by_the_configuration_that_it_logged(
    roles: str, enabled: str, mode: str
) -> None:
    server = LoggingServer(written=b"")
    migration = _migration({server.name: server}, MigrationState.NONE)
    assert migration.reported(server.name) is None
    server.written = (
        f"INFO KafkaConfig: KafkaConfig values: \n\tprocess.roles = [{roles}]\n"
        f"\tzookeeper.metadata.migration.enable = {enabled}\n"
    ).encode()
    assert migration.reported(server.name) == mode


def test_controller_reports_its_mode_by_its_session_with_zookeeper() -> None:
    started = b"INFO KafkaRaftServer: [KafkaRaftServer nodeId=101] Kafka Server started\n"
    session = b"INFO ZooKeeperClient: [ZooKeeperClient KRaft Migration] Initializing a new session"
    server = LoggingServer("controller-1", written=b"Starting controller\n")
    migration = _migration({server.name: server}, MigrationState.PRE_MIGRATION)
    assert migration.reported(server.name) is None
    server.written = session + b"\n" + started
    assert migration.reported(server.name) == "migration mode"
    migration.install(server.name, Stage.KRAFT)
    assert migration.reported(server.name) is None
    server.written += started
    assert migration.reported(server.name) == "KRaft"


def test_servers_leave_zookeeper_only_when_the_cluster_is_ready() -> None:
    names = ("broker-1", "broker-2", "controller-1")
    servers = {name: LoggingServer(name, written=b"") for name in names}
    image = Image(migration=MigrationState.PRE_MIGRATION)
    migration = _migration(servers, image)
    stages = [migration.first_stage(name) for name in names]
    assert stages == [Stage.BEFORE, Stage.BEFORE, Stage.MIGRATING]
    migration.install("broker-1", Stage.MIGRATING)
    assert not migration.may_have_begun, "broker-2 knows no controller of KRaft"
    why = migration.obstacle("broker-1", Stage.KRAFT)
    assert (
        why
        == "broker-1 cannot leave ZooKeeper: the migration is in PRE_MIGRATION, not in MIGRATION"
    )
    migration.install("broker-2", Stage.MIGRATING)
    assert migration.may_have_begun
    image.migration = MigrationState.MIGRATION
    assert migration.obstacle("broker-1", Stage.KRAFT) is None
    migration.install("broker-1", Stage.KRAFT)
    why = migration.obstacle("controller-1", Stage.KRAFT)
    assert why == "the migration cannot be final: broker-2 still needs ZooKeeper"
    migration.install("broker-2", Stage.KRAFT)
    assert migration.obstacle("controller-1", Stage.KRAFT) is None
    assert migration.obstacle("broker-1", Stage.AFTER) is not None


def test_servers_go_back_to_zookeeper_only_in_their_order() -> None:
    names = ("broker-1", "broker-2", "controller-1")
    servers = {name: LoggingServer(name, written=b"") for name in names}
    controller = [101]
    image = Image(migration=MigrationState.PRE_MIGRATION)
    migration = _migration(servers, image, controller.__getitem__)
    migration.install("broker-1", Stage.MIGRATING)
    assert migration.obstacle("broker-1", Stage.BEFORE) is None, "the controllers still wait"
    migration.install("broker-2", Stage.MIGRATING)
    image.migration = MigrationState.MIGRATION
    why = migration.obstacle("broker-1", Stage.BEFORE)
    assert why is not None
    assert "the migration is in MIGRATION, and the controllers decide" in why
    migration.install("broker-1", Stage.KRAFT)
    assert migration.removal_obstacle() == "broker-1 has no ZooKeeper, and needs them"
    assert migration.obstacle("broker-1", Stage.RETURNING) is None
    migration.install("broker-1", Stage.RETURNING)
    assert migration.removal_obstacle() is None
    migration.remove_controllers()
    why = migration.obstacle("broker-1", Stage.BEFORE)
    assert why == "broker-1 cannot leave migration mode: /controller still names 101"
    controller[0] = 2
    assert migration.obstacle("broker-1", Stage.BEFORE) is None


def test_final_migration_has_no_way_back() -> None:
    servers = {name: LoggingServer(name, written=b"") for name in ("broker-1", "controller-1")}
    migration = _migration(servers, MigrationState.POST_MIGRATION)
    for name in servers:
        migration.install(name, Stage.KRAFT)
    reasons = [
        migration.obstacle("broker-1", Stage.RETURNING),
        migration.obstacle("broker-1", Stage.BEFORE),
        migration.removal_obstacle(),
    ]
    assert all(why is not None and "Kafka does not go back from there" in why for why in reasons)


def _migration(
    servers: Mapping[str, Any],
    image: Image | MigrationState,
    controller: Callable[[int], int] = lambda _: 101,
) -> KRaftMigration:
    """Return a migration of servers, whose metadata log has this image, or this state, and whose
    ``/controller`` names what ``controller`` returns for 0."""
    found = Image(migration=image) if isinstance(image, MigrationState) else image
    controllers = [name for name in servers if name.startswith("controller-")]

    def command(server: LoggingServer, _stage: Stage) -> Command:
        return Command(name=server.name, argv=())

    class Znodes(MigrationZnodes):
        def controller(self) -> int | None:
            return controller(0)

    origin: Any = None
    unused: Any = None
    znodes = Znodes(unused, unused)
    return KRaftMigration(
        controllers, lambda: servers, command, lambda use: use(found, origin), znodes
    )  # type: ignore[arg-type]


def test_protocol_is_named_after_the_release() -> None:
    assert (protocol_of(OLD), protocol_of(NEW)) == ("2.8", "3.9")
    assert (apache_version("4.4.0"), apache_version("7.6.1-ccs")) == ("4.4.0", "3.6.1")


def test_build_of_two_releases_has_their_common_properties() -> None:
    build = parse(TWO)
    assert isinstance(build, KafkaUpgrade)
    assert build.is_upgrade
    assert not parse("kafka:3.9.1").is_upgrade
    assert build.quorums == (MetadataQuorum.ISOLATED_KRAFT, MetadataQuorum.COMBINED_KRAFT)
    assert build.is_before((4, 0)), "the older one counts: it is there first"
    quorum = MetadataQuorum.ISOLATED_KRAFT
    known = build.known(quorum)
    older, newer = (parse(f"kafka:{one}").known(quorum) for one in ("3.9.1", "4.1.1"))
    assert known is not None
    assert older is not None
    assert newer is not None
    assert known.broker.keys() == older.broker.keys() & newer.broker.keys()
    assert known.topic.keys() == older.topic.keys() & newer.topic.keys()
    with pytest.raises(ValueError, match="keeps its metadata with KRaft"):
        build.quorum("zookeeper")


def test_releases_of_an_upgrade_are_named_in_full() -> None:
    assert pinned("kafka:3.9.1..4.1.1") == pinned(TWO) == TWO
    assert as_name({"from": "kafka:3.9.1", "to": "kafka:4.1.1"}) == TWO
    assert as_name("bundled") == "bundled"


def test_newer_release_describes_all_records_that_the_older_one_writes() -> None:
    older, newer = (schemas_of(Release(version=one)).records for one in ("3.9.1", "4.1.1"))
    for number, record in older.items():
        if record["name"] in ("RegisterBrokerRecord", "PartitionRecord", "PartitionChangeRecord"):
            described = newer[number]["versions"]
            assert described.keys() >= record["versions"].keys()
            assert all(described[one] == record["versions"][one] for one in record["versions"])
