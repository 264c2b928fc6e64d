"""The security of a program's connection: translated from librdkafka's properties, and read again
by the program of aiokafka as it was meant."""

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.workloads.configuration import CONNECTION, connected
from ackproof.workloads.foreign.aiokafka_program import security_parameters
from ackproof.workloads.foreign.program import RunningProgram, greeting
from ackproof.workloads.foreign.protocol import Property, decode_command
from ackproof.workloads.foreign.security import program_security, untranslated
from ackproof.workloads.spec import SpecificationError
from tests.support.builders.certificates import Authority

SCRAM = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "SCRAM-SHA-512"}
ONE_LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


@given(user=ONE_LINE, password=ONE_LINE)
def test_program_logs_in_with_the_user_and_password_that_were_given(user, password) -> None:
    login = {"sasl.username": user, "sasl.password": password}
    told = program_security("aiokafka", {**SCRAM, **login})
    lines = greeting(["t"], told).split(b"\n")
    heard = [decode_command(line) for line in lines if line]
    properties = {one.name: one.value for one in heard if isinstance(one, Property)}
    assert security_parameters(properties) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Return the server's end of a TLS connection between two contexts, without a network."""
    (to_server, to_client) = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
        if not waiting:
            return ends[1]
    raise AssertionError("the handshake does not end")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_of(given: dict[str, str]) -> ssl.SSLContext:
    parameters = security_parameters(program_security("aiokafka", given))
    context = parameters["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


@pytest.mark.parametrize("in_files", [True, False])
def test_program_shows_its_certificate_and_verifies_the_servers(
    authority: Authority, server: ssl.SSLContext, in_files: bool
) -> None:
    certificate, key = authority.issue("client")
    kind = "location" if in_files else "pem"
    given = {
        f"ssl.{name}.{kind}": str(path) if in_files else f"a comment\n{path.read_text()}"
        for name, path in (
            ("ca", authority.certificate),
            ("certificate", certificate),
            ("key", key),
        )
    }
    given["security.protocol"] = "ssl"
    shown = shaken(server, client_of(given), "localhost").getpeercert()
    assert shown is not None
    assert (("commonName", "client"),) in shown["subject"]
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, client_of(given), "elsewhere.example.org")
    anywhere = {**given, "ssl.endpoint.identification.algorithm": "none"}
    assert shaken(server, client_of(anywhere), "elsewhere.example.org") is not None


def test_program_without_an_authority_trusts_those_of_the_system(server: ssl.SSLContext) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, client_of({"security.protocol": "ssl"}), "localhost")


def test_program_logs_in_with_the_token_of_a_run() -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1800000000}').decode().rstrip("=")
    token = f"head.{claims}.signature"
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": token}
    connection = connected({"security.protocol": "SASL_PLAINTEXT", **login})
    told = program_security("java", connection)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    assert told["sasl.jaas.config"] == f'{module} required token="{token}";'
    parameters = security_parameters(told)
    assert asyncio.run(parameters.pop("sasl_oauth_token_provider").token()) == token
    assert parameters == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }


def test_connection_in_the_clear_tells_nothing() -> None:
    assert program_security("java", {"sasl.password": "x"}) == {}


@pytest.mark.parametrize(
    ("client", "given", "secrets", "reason"),
    [
        ("java", {"sasl.mechanism": "OAUTHBEARER"}, (), "sasl.mechanism OAUTHBEARER"),
        ("java", {"ssl.keystore.location": "k.p12"}, (), "ssl.keystore.location"),
        ("java", {}, ("sasl.oauthbearer.client.secret",), "sasl.oauthbearer.client.secret"),
        ("java", {"ssl.ca.location": "probe"}, (), "ssl.ca.location probe"),
        ("java", {}, ("ssl.key.password", "sasl.password"), None),
        ("franz-go", {}, ("ssl.key.password",), "only keys without one"),
        ("./own", {"sasl.mechanisms": "PLAIN"}, ("sasl.password",), None),
    ],
)
def test_property_that_a_program_cannot_get_is_named(client, given, secrets, reason) -> None:
    found = untranslated(client, given, secrets)
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)


def test_key_that_java_cannot_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")
    given = {"security.protocol": "ssl", "ssl.key.location": str(key)}
    with pytest.raises(ValueError, match="openssl pkcs8"):
        program_security("java", given)
    assert program_security("franz-go", given)["ssl.keystore.type"] == "PEM"


def test_secrets_reach_a_program_by_its_input_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        CONNECTION,
        '{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", '
        '"sasl.username": "u", "sasl.password": "hunter2"}',
    )
    assert b'password="hunter2"' in greeting(["t"], {}, "java")
    program = RunningProgram(["/bin/sh", "-c", f'test -z "${CONNECTION}" && echo ready'])
    try:
        assert [type(one).__name__ for one in program.hear(30)] == ["Ready"]
    finally:
        program.kill()


def test_secret_that_no_line_can_hold_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        CONNECTION,
        '{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", '
        '"sasl.password": "hunter\\n2"}',
    )
    with pytest.raises(SpecificationError) as refusal:
        greeting(["t"], {}, "java")
    assert "hunter" not in str(refusal.value)
