"""A secret in a campaign file is refused wherever it is, and never printed."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ackproof.harness.cli import cli

SECRET = "hunter2-unused"
JAAS = f'org.apache.kafka.X required username="app" password="{SECRET}";'
EXTERNAL = {"system": "external", "backend": "here", "external": {"bootstrap.servers": "k:9092"}}


def campaign(tmp_path: Path, **sections: object) -> Path:
    document = {
        "name": "mine",
        "cluster": EXTERNAL,
        "cells": {"acks": "all", "min.insync.replicas": 2},
        "workload": {"rate": 10},
        "faults": [],
        **sections,
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def external(**spec: object) -> dict[str, object]:
    return {"cluster": {**EXTERNAL, "external": {"bootstrap.servers": "k:9092", **spec}}}


def cells(**further: object) -> dict[str, object]:
    return {"cluster": {}, "cells": {"acks": "all", "min.insync.replicas": 2, **further}}


def kafka(**cluster: object) -> dict[str, object]:
    return {"cluster": {"system": "kafka:3.9.1", **cluster}}


@pytest.mark.parametrize(
    ("sections", "field", "instead"),
    [
        (external(client={"sasl.jaas.config": JAAS}), "client.sasl.jaas.config", "sasl.username"),
        (external(client={"ssl_key": SECRET}), "client.ssl_key", "leave it out"),
        (external(client={"ssl.key.pem": [SECRET]}), "client.ssl.key.pem", "{env: VARIABLE}"),
        (
            external(client={"sasl.oauthbearer.token.endpoint.url": f"https://u:{SECRET}@idp"}),
            "client.sasl.oauthbearer.token.endpoint.url",
            "cluster.external.secrets",
        ),
        (external(secrets={"sasl.password": SECRET}), "secrets.sasl.password", "{file: PATH}"),
        (
            external(servers={"broker-1": {"commands": {"kill": ["ctl", "--password", SECRET]}}}),
            "servers.broker-1.commands.kill[2]",
            "let the command read it",
        ),
        (
            external(servers={"broker-1": {"commands": {"kill": ["ctl", f"-Dpassword={SECRET}"]}}}),
            "servers.broker-1.commands.kill[1]",
            "let the command read it",
        ),
        (kafka(properties={"ssl.keystore.password": SECRET}), "ssl.keystore.password", "leave it"),
        (
            kafka(properties={"listener.name.x.plain.sasl.jaas.config": [JAAS, "y"]}),
            "cluster.properties.listener.name.x.plain.sasl.jaas.config",
            "leave it out",
        ),
        (kafka(compare={"a": {"ssl.key.password": SECRET}}), "cluster.compare.a", "leave it out"),
        (kafka(properties={"some.opts": f"-Dpassword={SECRET}"}), "some.opts", "leave it out"),
        (cells(topic={"x.password": SECRET}), "cells.topic.x.password", "leave it out"),
        (cells(producer={"sasl.password": SECRET}), "cells.producer.sasl.password", "leave it"),
        (
            {
                "workload": {
                    "rate": 1,
                    "groups": [{"name": "g", "consumer": {"ssl.key.pem": SECRET}}],
                }
            },
            "workload.groups[0].consumer.ssl.key.pem",
            "cluster.external.secrets",
        ),
        ({"backend": {"password": SECRET}}, "backend.password", "is a secret"),
    ],
)
def test_secret_is_refused_and_not_printed(
    tmp_path: Path, sections: dict[str, object], field: str, instead: str
) -> None:
    path = campaign(tmp_path, **sections)
    for command in (["validate", str(path)], ["run", str(path), "--dry-run"], ["run", str(path)]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 2
        lines = [line for line in done.output.splitlines() if "is a secret" in line]
        assert any(field in line and instead in line for line in lines), done.output
        assert SECRET not in done.output


@pytest.mark.parametrize(
    "text",
    [
        "cluster: {external: {client: [{sasl.password: SECRET}]}}",
        "cells: [{producer: {sasl.password: SECRET}}]",
        "cluster: {external: {client: {sasl.password: {SECRET: 1}}}}",
        "cluster: {external: {secrets: {sasl.password: [SECRET]}}}",
    ],
)
def test_secret_of_a_wrong_shape_is_not_printed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("SECRET", SECRET), encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", str(path)])
    assert done.exit_code == 2
    assert SECRET not in done.output


def test_ambiguous_number_of_a_secret_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("cluster: {external: {client: {sasl.password: 0170071}}}", encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", str(path)])
    assert "write it in quotes" in done.output
    assert not any(value in done.output for value in ("170071", "61497"))


def test_secret_of_the_standing_cluster_is_refused() -> None:
    done = CliRunner().invoke(cli, ["cluster", "up", "--property", f"ssl.key.password={SECRET}"])
    assert done.exit_code == 2
    assert "is a secret" in done.output
    assert SECRET not in done.output
