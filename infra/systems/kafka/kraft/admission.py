"""The admission of clients to a secured cluster, and the proof that it refuses strangers."""

from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

from ackproof.infra.api.interface import DeploymentError
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.admin import admin_client
from ackproof.infra.systems.kafka.kraft.properties import BROKERS
from ackproof.infra.systems.kafka.kraft.security import CLIENT, ClusterCredentials
from ackproof.infra.systems.wire import Connect, ask, call, connector

_GRANTED: Mapping[ResourceType, Sequence[AclOperation]] = {
    ResourceType.TOPIC: (
        *(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.READ, AclOperation.WRITE),
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
"""The operations that clients of a run may do on any topic, group and transactional id."""
_ADMITTED_S = 60.0
_ANSWER_S = 10.0
_ROUNDS = 4096
_SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_METADATA = MetadataRequest(
    topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
)
_ANY = i8(1)
"""The value of ``ANY`` in the filters of ACLs."""
_ALL_ACLS = DescribeAclsRequest(
    resource_type_filter=_ANY,
    resource_name_filter=None,
    pattern_type_filter=_ANY,
    principal_filter=None,
    host_filter=None,
    operation=_ANY,
    permission_type=_ANY,
)


def admit(credentials: ClusterCredentials, brokers: Sequence[tuple[str, int]]) -> None:
    """Create what clients need to connect, and wait until every broker accepts them.

    Then check that brokers refuse all others: a cluster that accepts all connections would get
    the same verdicts. ``brokers`` are the addresses of the clients' listener. Raises
    DeploymentError.
    """
    own = ",".join(f"{host}:{BROKERS.port}" for host, _ in brokers)
    mechanism = credentials.security.mechanism
    with admin_client({**credentials.harness, "bootstrap.servers": own}) as admin:
        if mechanism in _SCRAM:
            _create_scram_login(admin, mechanism, credentials.passwords[CLIENT])
        if credentials.security.acls:
            _grant(admin)
    client = connector(credentials.client)
    refusals: dict[tuple[str, int], str] = {}

    def all_accept() -> bool:
        found = zip(brokers, on_all(partial(_refusal, client), brokers), strict=True)
        refusals.clear()
        refusals.update({one: reason for one, reason in found if reason is not None})
        return not refusals

    try:
        wait_until(all_accept, _ADMITTED_S, "all brokers to accept clients")
    except TimeoutError as error:
        raise DeploymentError(f"{error} with {credentials.security}: {refusals}") from None
    for who, stranger in credentials.strangers():
        if None in on_all(partial(_refusal, connector(stranger)), brokers):
            raise DeploymentError(f"a broker accepts {who}, in spite of {credentials.security}")
    if credentials.security.acls and not _is_limited(client, brokers[0]):
        raise DeploymentError("the brokers let clients read ACLs, which no ACL allows")


def _refusal(connect: Connect, address: tuple[str, int]) -> str | None:
    """Return why a broker refuses a client that connects so; None if it serves it."""
    deadline = monotonic() + _ANSWER_S
    try:
        with connect(address, deadline) as connection:
            ask(connection, _METADATA, MetadataResponse, deadline)
    except OSError as error:
        return str(error) or type(error).__name__
    return None


def _is_limited(connect: Connect, address: tuple[str, int]) -> bool:
    """Return whether a broker refuses clients what no ACL allows: to read the ACLs."""
    try:
        told = call(address, _ALL_ACLS, DescribeAclsResponse, _ANSWER_S, connect)
    except OSError:
        return False
    return told.error_code is ErrorCode.cluster_authorization_failed


def _create_scram_login(admin: AdminClient, mechanism: str, password: str) -> None:
    credential = ScramCredentialInfo(_SCRAM[mechanism], _ROUNDS)
    asked = [UserScramCredentialUpsertion(CLIENT, credential, password.encode())]
    try:
        admin.alter_user_scram_credentials(asked)[CLIENT].result()
    except KafkaException as error:
        raise DeploymentError(f"the login of clients: {error.args[0].str()}") from None


def _grant(admin: AdminClient) -> None:
    """Allow the clients of the run what they need."""
    rules = [
        AclBinding(
            kind,
            "*",
            ResourcePatternType.LITERAL,
            f"User:{CLIENT}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, operations in _GRANTED.items()
        for operation in operations
    ]
    try:
        for granted in admin.create_acls(rules).values():
            granted.result()
    except KafkaException as error:
        raise DeploymentError(f"the ACLs of clients: {error.args[0].str()}") from None
