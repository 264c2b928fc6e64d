"""Campaigns for a cluster that was there before: what is refused when they are read, and what they
make of names."""

import json
import socket
from pathlib import Path

import pytest
import yaml

from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.harness import external_cluster
from ackproof.harness.campaign.backends import place_of
from ackproof.harness.campaign.lint import warnings
from ackproof.harness.campaign.model.external import HandSpec, handle
from ackproof.harness.campaign.plan.context import planned_members
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.infra.api.interface import Capability
from ackproof.infra.backends.kubernetes.cluster import IMAGE
from ackproof.infra.node.nodes import OF_LINKS
from ackproof.infra.systems.external.description import Action
from ackproof.infra.systems.external.probes import SurveyedCluster
from ackproof.nemesis.interface import Aim
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import planned_view, resolve_planned
from tests.support.builders.external_campaigns import (
    COMMANDS,
    CREATE,
    HOSTS,
    IN_PODS,
    KILL,
    SERVERS,
    SSH,
    WITH_AGENTS,
    run,
    voters,
    written,
)


def refused(path: Path) -> list[str]:
    with pytest.raises(CampaignRefused) as refusal:
        check(path)
    return [f"{problem.field}: {problem.reason}" for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("fault", "external", "reason"),
    [
        (KILL, {}, "kill needs control of the brokers"),
        (
            {"fault": "pause", "target": "all"},
            {"servers": {**SERVERS, "broker-2": {"commands": {"kill": ["k"], "start": ["s"]}}}},
            "pause needs commands of broker-2 to pause, resume",
        ),
        (
            {"fault": "isolate", "target": "one"},
            {"servers": SERVERS},
            "set cluster.external.agent, and give ssh to broker-1, broker-2, broker-3",
        ),
        (
            {"fault": "slow", "target": "broker-1 <-> client-1"},
            {"servers": HOSTS, "agent": True},
            "between clients and brokers only cuts and losses are possible",
        ),
        (
            {"fault": "cut", "target": "client-1 -> broker-1"},
            {"servers": HOSTS, "agent": True, "cluster": {"clients": 2}},
            "client-1 -> broker-1: the 2 client nodes share this machine's addresses",
        ),
        ({"fault": "replace", "target": "one"}, {"servers": SERVERS}, "that Ackproof deploys"),
        (
            {"fault": "pause", "target": "broker-0"},
            IN_PODS,
            "pause is none of the operations on pods (cluster.external.kubernetes): it needs",
        ),
        (
            {"fault": "expire-session", "target": "one"},
            {"servers": SERVERS},
            "not for system: external",
        ),
        (
            {"fault": "elect-unclean", "target": "topic(acks-all-minisr-2)"},
            {},
            "elect-unclean is proven by leader epochs: name the controllers under",
        ),
        (
            {"fault": "kill", "target": "controller"},
            {"servers": SERVERS},
            "controller: the controllers are unknown: name them under cluster.external.controllers",
        ),
        (
            {"fault": "elect-preferred", "target": "topic(acks-all-minisr-2)"},
            {"client": {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}},
            "Ackproof's own connection does not support sasl.mechanism OAUTHBEARER",
        ),
        ({"story": "rolling-drain"}, {"servers": SERVERS}, "drain is for brokers in pods: name"),
        (
            {"fault": "operator-roll", "target": "all"},
            IN_PODS,
            "operator-roll is for clusters of Strimzi: name yours by cluster.external.kubernetes.",
        ),
        ({"story": "administrator-elects-uncleanly", "topic": "acks-all-minisr-2"}, {}, "kill"),
    ],
)
def test_fault_unsupported_by_an_external_cluster_is_refused(
    tmp_path: Path, fault, external, reason: str
) -> None:
    told = refused(written(tmp_path, fault, **external))
    assert any(reason in line and line.startswith("faults[0]") for line in told), told


PODS = {"kubernetes": {**IN_PODS["kubernetes"], "image": "node"}}


KINDS = {
    "addresses": {},
    "hosts": {"servers": WITH_AGENTS["servers"]},
    "hosts with agents": WITH_AGENTS,
    "pods": PODS,
    "pods with agents": {**PODS, "agent": True},
}


EVERYWHERE = dict.fromkeys(KINDS, "system: external")


NO_CONTROL = "configure it under cluster.external.servers, or name their pods under"


SET_AGENT = "needs the agent beside the brokers: set cluster.external.agent"


ON_HOSTS = "is not for cluster.external.kubernetes: "


OF_LINKS_REFUSED = {
    "addresses": f"{SET_AGENT}, and name all brokers under cluster.external.servers, each with "
    "ssh, or their pods under cluster.external.kubernetes",
    "hosts": SET_AGENT,
    "pods": SET_AGENT,
}


OF_PODS_REFUSED = dict.fromkeys(
    ("addresses", "hosts", "hosts with agents"),
    "is for brokers in pods: name these under cluster.external.kubernetes",
)


OF_HOSTS_REFUSED = {
    "addresses": f"{SET_AGENT}, and name all brokers under cluster.external.servers, each with ssh",
    "hosts": SET_AGENT,
    "pods": ON_HOSTS,
    "pods with agents": ON_HOSTS,
}


@pytest.mark.parametrize(
    ("fault", "refusals"),
    [
        ("kill", {"addresses": NO_CONTROL}),
        ("pause", {"addresses": NO_CONTROL, "pods": "(cluster.external.kubernetes)"}),
        ("isolate", {one: OF_LINKS_REFUSED[one] for one in ("addresses", "hosts")}),
        ("flap", OF_LINKS_REFUSED),
        ("disk-full", OF_HOSTS_REFUSED),
        ("starve-cpu", {one: OF_LINKS_REFUSED[one] for one in ("addresses", "hosts")}),
        ("drain", OF_PODS_REFUSED),
        ("node-failure", {**OF_PODS_REFUSED, "pods": SET_AGENT}),
        ("starve-memory", OF_HOSTS_REFUSED),
        ("power-failure", EVERYWHERE),
        ("fast-clock", EVERYWHERE),
        ("replace", EVERYWHERE),
        ("crash-client", {}),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_refused_fault_names_the_cause_in_the_file(
    tmp_path: Path, kind: str, fault: str, refusals: dict[str, str]
) -> None:
    targets = {"crash-client": "clients", "flap": "broker-1 <-> broker-2"}
    target = targets.get(fault, "broker-1")
    path = written(tmp_path, {"fault": fault, "target": target}, **KINDS[kind])
    if kind not in refusals:
        check(path)
        return
    first = refused(path)[0]
    assert first.startswith(f"faults[0].fault: {fault} ")
    assert refusals[kind] in first
    assert "backend" not in first


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"client": {"sasl.password": "x"}}, "client.sasl.password: is a secret"),
        (
            {"client": {"sasl.oauthbearer.assertion.private.key.pem": "x"}},
            "private.key.pem: is a secret",
        ),
        (
            {"client": {"sasl.oauthbearer.client.credentials.client.secret": "x"}},
            "client.secret: is a secret",
        ),
        ({"client": {"security.protocol": "SASLSSL"}}, 'Invalid value "SASLSSL"'),
        ({"client": {"ssl.ca.locaton": "ca.pem"}}, "client.ssl.ca.locaton: No such"),
        ({"secrets": {"sasl.pasword": {"env": "P"}}}, "secrets.sasl.pasword: No such"),
        ({"client": {"acks": "all"}}, "client.acks: is not a connection setting"),
        ({"secrets": {"sasl.password": {}}}, "give exactly one of them"),
        ({"servers": {"broker-1": {"commands": COMMANDS}}}, "says 3, but 1 are named"),
        ({"servers": SERVERS, "broker.ids": [1, 2, 4]}, "broker-4 is missing"),
        (
            {"servers": SERVERS | {"controller-3": {"commands": COMMANDS}}},
            "voters of cluster.external.controllers that are no brokers: there are none",
        ),
        ({"racks": {"a": [1, 4]}}, "racks.a: there is no broker 4; there are 1, 2, 3"),
        ({"racks": {"a": [1], "b": [1]}}, "racks.b: a broker is in one rack: 1 is named twice"),
        ({"racks": {"any": [1]}}, "any is no name"),
        ({"cluster": {"racks": ["a"]}}, "name the racks of yours under cluster.external.racks"),
        ({"servers": {**SERVERS, "broker-1": {}}}, "one of systemd, container, compose"),
        (
            {"cells": {"producer": {"sasl.password": "x"}}},
            "say under cluster.external.secrets where it is",
        ),
        (
            {"cells": {"client": "java"}, "client": {"ssl.keystore.location": "k.p12"}},
            "of cluster.external.client, java cannot receive ssl.keystore.location; librdkafka can",
        ),
        (
            {"agent": True},
            "external.agent: the agent is put beside the brokers of cluster.external",
        ),
        ({"agent": True, "servers": SERVERS}, "broker-1, broker-2, broker-3 has none"),
        (
            {
                "agent": True,
                "servers": {name: {**one, "ssh": SSH} for name, one in SERVERS.items()},
            },
            "kafka-1 has several brokers: with the agent each needs a host of its own",
        ),
        ({**IN_PODS, "servers": SERVERS}, "kubernetes takes the place of servers"),
        ({**IN_PODS, "agent": True}, "agent: needs an image for its container"),
        ({"kubernetes": {"namespace": "n"}}, "give exactly one of strimzi and selector"),
        (
            {"kubernetes": {"namespace": "n", "strimzi": "s", "id": "ordinal+1"}},
            "strimzi says where the id is",
        ),
        (
            {"kubernetes": {"namespace": "n", "selector": "a=b", "id": "a/b/c"}},
            "ordinal, ordinal+N, or the name of a label",
        ),
        ({"cluster": {"backend": "local"}}, "its clients run on the backend here, not on local"),
        (
            {"cluster": {"properties": {"min.insync.replicas": 2}}},
            "Ackproof sets no properties of an external cluster",
        ),
        ({"cluster": {"brokers": [3, 5]}}, "an external cluster is a single cluster"),
        (voters("1@kafka-1:9093,kafka-2"), "NODE.ID@HOST:PORT of each controller"),
        (voters("1@kafka-1:9093,1@kafka-2:9093"), "quorum.voters: names a node.id twice"),
        (voters(client={"ssl.ca.locaton": "x"}), "controllers.client.ssl.ca.locaton: No such"),
        (
            voters(secrets={"sasl.pasword": {"env": "P"}}),
            "controllers.secrets.sasl.pasword: No such",
        ),
        (
            voters(client={"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}),
            "which does not support sasl.mechanism GSSAPI",
        ),
        (voters(release="3.1.0"), "3.1.0 has no KRaft"),
        (voters(release="newest"), "a version: 4.4.0"),
    ],
)
def test_problems_of_an_external_cluster_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes, reason: str
) -> None:
    monkeypatch.delenv(IMAGE, raising=False)
    told = refused(written(tmp_path, CREATE, **changes))
    assert any(reason in line for line in told), told


APART = voters("101@kafka-4:9093,102@kafka-5:9093")


COMBINED = voters("1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093")


HOSTS_OF_CONTROLLERS = {
    f"controller-{n}": {"systemd": "kafka", "ssh": {"address": f"kafka-{n}", "user": "admin"}}
    for n in (101, 102)
}


OF_CONTROLLERS = {f"controller-{n}": {"commands": COMMANDS} for n in (101, 102)}


@pytest.mark.parametrize(
    ("fault", "external", "keepers"),
    [
        (
            {"fault": "kill", "target": "controller"},
            {"servers": SERVERS, **COMBINED},
            ("broker-1", "broker-2", "broker-3"),
        ),
        (
            {"fault": "isolate", "target": "quorum-leader"},
            {**WITH_AGENTS, **COMBINED},
            ("broker-1", "broker-2", "broker-3"),
        ),
        (
            {"fault": "pause", "target": "controller"},
            {"servers": SERVERS | OF_CONTROLLERS, **APART},
            ("controller-101", "controller-102"),
        ),
        (
            {"fault": "kill", "target": "controller-102"},
            {"servers": SERVERS | OF_CONTROLLERS, **APART},
            ("controller-101", "controller-102"),
        ),
        (
            {"fault": "cut", "target": "broker-1 <-> broker-2"},
            {**WITH_AGENTS, **APART},
            ("controller-101", "controller-102"),
        ),
        (
            {"fault": "isolate", "target": "quorum"},
            {"agent": True, "servers": WITH_AGENTS["servers"] | HOSTS_OF_CONTROLLERS, **APART},
            ("controller-101", "controller-102"),
        ),
    ],
)
def test_known_controllers_are_targets(tmp_path: Path, fault, external, keepers) -> None:
    (plan,) = runs_of(check(written(tmp_path, fault, **external)).campaign)
    members = planned_members(plan.cluster)
    assert members.zookeepers == keepers
    assert {members.by_id[n] for n in (1, 2, 3)} == set(members.brokers)
    active = resolve_planned(
        parse("controller"), members, planned_view(members, {}), 0, Aim.SERVERS
    )
    assert active.servers == keepers[:1]


@pytest.mark.parametrize(
    ("fault", "external", "reason"),
    [
        (
            {"fault": "kill", "target": "quorum"},
            {"servers": {**SERVERS, "controller-101": {"commands": COMMANDS}}, **APART},
            "kill needs control of controller-102",
        ),
        (
            {"fault": "pause", "target": "controller-101"},
            {"servers": SERVERS | {"controller-101": {"commands": {"kill": ["k"]}}}, **APART},
            "pause needs commands of controller-101 to pause, resume",
        ),
        (
            {"fault": "isolate", "target": "one"},
            {**WITH_AGENTS, **APART},
            "isolate needs the agent beside controller-101, controller-102, too",
        ),
        (
            {"fault": "isolate", "target": "one"},
            {**PODS, **APART},
            "isolate needs the pods of controller-101, controller-102, too",
        ),
        (
            {"fault": "cut", "target": "broker-1 -> broker-2"},
            PODS,
            "NetworkPolicies cut links in both directions (<->): set cluster.external.agent",
        ),
        (
            {"fault": "cut", "target": "broker-1 <-> client-1"},
            PODS,
            "NetworkPolicies cut links between brokers alone",
        ),
        (
            {"fault": "halves", "target": "all", "parameters": {"direction": "in"}},
            PODS,
            "halves: NetworkPolicies cut whole links, without direction",
        ),
        (
            {"fault": "starve-cpu", "target": "controller"},
            {**PODS, **APART},
            "starve-cpu needs the pods of controller-101, controller-102, too",
        ),
        (
            {"fault": "isolate", "target": "one"},
            {
                "agent": True,
                "servers": {
                    **WITH_AGENTS["servers"],
                    **HOSTS_OF_CONTROLLERS,
                    "controller-102": WITH_AGENTS["servers"]["broker-1"],
                },
                **APART,
            },
            "isolate needs the agent beside controller-102, too",
        ),
        (
            {"story": "zone-cut-off", "rack": "a"},
            {**WITH_AGENTS, **APART, "racks": {"a": [1]}},
            "cut needs the agent beside controller-101, controller-102, too",
        ),
        (
            {"fault": "kill", "target": "zookeeper"},
            {"servers": SERVERS, **COMBINED},
            "with KRaft there is no ZooKeeper",
        ),
        (
            {"fault": "kill", "target": "controller-7"},
            {"servers": SERVERS | OF_CONTROLLERS, **APART},
            "there is no controller-7",
        ),
    ],
)
def test_fault_that_controllers_of_an_external_cluster_do_not_offer_is_refused(
    tmp_path: Path, fault, external, reason: str
) -> None:
    told = refused(written(tmp_path, fault, **external))
    assert any(reason in line and line.startswith("faults[0]") for line in told), told


ZONES = {"servers": SERVERS, "racks": {"a": [1, 3], "b": [2]}}


def test_racks_of_an_external_cluster_are_targets(tmp_path: Path) -> None:
    faults = [{"story": "zone-failure", "rack": "a"}, {"fault": "pause", "target": "rack(b)"}]
    plan = next(iter(runs_of(check(written(tmp_path, *faults, **ZONES)).campaign)))
    assert plan.cluster.rack_of == {"broker-1": "a", "broker-2": "b", "broker-3": "a"}
    assert {fault.target for fault in plan.faults} == {"rack(a)", "rack(b)"}


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        ({1: "a", 2: "b", 3: "a"}, []),
        (
            {1: "a", 2: "b", 3: "b"},
            ["says 1, 3, but this rack has the brokers 1", "has the brokers 2, 3"],
        ),
        ({}, ["says 1, 3, but this rack has no brokers", "says 2, but this rack has no brokers"]),
    ],
)
def test_racks_that_the_cluster_does_not_have_are_problems(
    tmp_path: Path, found: dict[int, str], reasons: list[str]
) -> None:
    plan = next(iter(runs_of(check(written(tmp_path, **ZONES)).campaign)))
    surveyed = SurveyedCluster(
        cluster_id="c", brokers={}, in_force={}, racks=found, keepers_apart=False
    )
    problems = list(external_cluster.rack_differences(plan.cluster, surveyed))
    assert len(problems) == len(reasons)
    assert all(text in one.reason for text, one in zip(reasons, problems, strict=True))


def test_agents_in_pods_offer_links_and_pauses_but_no_disks_and_memory(tmp_path: Path) -> None:
    pods = {"kubernetes": {**IN_PODS["kubernetes"], "image": "node"}, "agent": True}
    path = written(tmp_path, {"fault": "pause", "target": "broker-0"}, **pods)
    (plan,) = runs_of(check(path).campaign.resolved(seed=7))
    told = list(external_cluster.doings(plan.cluster))
    assert any("an ephemeral container of node with the agent" in line for line in told), told
    never = place_of(plan.cluster).never
    assert {Capability.FILL_DISKS, Capability.LIMIT_MEMORY} <= never.keys()
    assert never.keys().isdisjoint({*OF_LINKS, Capability.LIMIT_CPU})


def test_brokers_in_pods_are_numbered_from_zero_and_named_in_the_dry_run(tmp_path: Path) -> None:
    strimzi = {"kubernetes": {"namespace": "kafka", "strimzi": "mine", "context": "prod"}}
    path = written(tmp_path, {"fault": "terminate", "target": "broker-0"}, **strimzi)
    (plan,) = runs_of(check(path).campaign.resolved(seed=7))
    cluster = external_cluster.outside(plan.cluster)
    assert cluster.brokers == (0, 1, 2)
    pods = cluster.handles[0].pod.pods
    assert (pods.selector, pods.container) == (
        "strimzi.io/cluster=mine,strimzi.io/broker-role=true",
        "kafka",
    )
    told = list(external_cluster.doings(plan.cluster))
    assert any(
        line.startswith("broker-2, to kill: kubectl --context prod --namespace kafka: delete the")
        for line in told
    ), told


@pytest.mark.parametrize(
    "external",
    [
        {"kubernetes": {"namespace": "kafka", "strimzi": "mine"}},
        {"kubernetes": {"namespace": "kafka", "selector": "a=b", "id": "some/label"}},
        {"servers": SERVERS},
        WITH_AGENTS,
        voters(release="4.3.1"),
        {"client": {"sasl.username": "a"}, "secrets": {"sasl.password": {"env": "PASSWORD"}}},
    ],
    ids=["strimzi", "selector", "commands", "agents", "controllers", "secrets"],
)
def test_stored_campaign_reads_back_with_its_external_cluster(tmp_path: Path, external) -> None:
    campaign = check(written(tmp_path, CREATE, **external)).campaign
    stored = tmp_path / "stored.yaml"
    stored.write_text(campaign.to_yaml())
    assert check(stored).campaign == campaign


def test_agent_pauses_brokers_without_a_command_for_it(tmp_path: Path) -> None:
    start = {"commands": {"start": ["start"]}}
    servers = {name: {**one, **start} for name, one in HOSTS.items()}
    pause = {"fault": "pause", "target": "all"}
    check(written(tmp_path, pause, servers=servers, agent=True))
    assert any(
        "to pause, resume" in line for line in refused(written(tmp_path, pause, servers=servers))
    )


def test_a_secret_is_not_shown_when_it_is_refused(tmp_path: Path) -> None:
    told = refused(written(tmp_path, CREATE, client={"sasl.password": "hunter2"}))
    assert "hunter2" not in str(told)


def test_the_backend_here_is_for_such_a_cluster_alone(tmp_path: Path) -> None:
    path = written(tmp_path, CREATE)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["cluster"]["system"] = "bundled"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert refused(path) == ["cluster.external: is for system: external"]
    del document["cluster"]["external"]
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = run(path, "run", path.name)
    assert done.returncode == 2
    assert "nothing is deployed on the backend here" in done.stderr


def test_topics_have_a_prefix_of_the_run_and_targets_follow(tmp_path: Path) -> None:
    campaign = check(written(tmp_path, KILL, CREATE, servers=SERVERS)).campaign.resolved(seed=7)
    (plan,) = runs_of(campaign)
    assert plan.cells[0].cell.topic == "ackproof-00000007-acks-all-minisr-2"
    assert {fault.target for fault in plan.faults} == {
        "leader(ackproof-00000007-acks-all-minisr-2, any)",
        "all",
    }
    assert campaign.resolved(seed=8).cells.prefix == campaign.cells.prefix, "it is named once"
    manifest = manifest_of(campaign, [plan])
    assert (manifest.runs[0].external, manifest.runs[0].replicas) == (True, False)


@pytest.mark.parametrize(
    ("external", "unchecked"),
    [
        (
            {},
            {
                *("replicas-agree", "committed-stays", "deposed-leaders-stop", "min-isr-kept"),
                *("one-leader-an-epoch", "epochs-rise", "servers-stay-up"),
            },
        ),
        (voters(), {"replicas-agree", "one-leader-an-epoch", "servers-stay-up"}),
        ({**voters(), **WITH_AGENTS}, set()),
    ],
)
def test_unchecked_guarantees_are_planned_with_a_reason(
    tmp_path: Path, external, unchecked
) -> None:
    campaign = check(written(tmp_path, CREATE, **external)).campaign.resolved(seed=7)
    (planned,) = manifest_of(campaign, runs_of(campaign)).runs
    assert planned.unchecked.keys() == unchecked <= GUARANTEES.keys()
    assert planned.replicas == ("replicas-agree" not in unchecked)
    assert all(planned.unchecked.values())


def test_controllers_have_the_brokers_connection_unless_they_have_their_own(tmp_path: Path) -> None:
    client = {"security.protocol": "SSL"}
    secrets = {"ssl.key.password": {"env": "P"}}
    for own, found in (({}, client), ({"client": {"security.protocol": "PLAINTEXT"}}, None)):
        external = voters("1@[::1]:9093, 3001@k:1", **own)
        path = written(tmp_path, CREATE, client=client, secrets=secrets, **external)
        told = external_cluster.outside(runs_of(check(path).campaign.resolved(seed=7))[0].cluster)
        assert told.quorum == {"broker-1": (1, ("::1", 9093)), "controller-3001": (3001, ("k", 1))}
        assert told.controllers.client == (found or own["client"])
        assert bool(told.controllers.secrets) == bool(found)


def test_a_prefix_of_one_s_own_is_kept(tmp_path: Path) -> None:
    mine = {"fault": "alter-min-isr", "target": "topic(mine.acks-all-minisr-2)"}
    path = written(tmp_path, mine, cells={"prefix": "mine."})
    campaign = check(path).campaign.resolved(seed=7)
    assert runs_of(campaign)[0].cells[0].cell.topic == "mine.acks-all-minisr-2"
    assert campaign.faults[0].target == "topic(mine.acks-all-minisr-2)"


def test_brokers_are_called_by_their_ids(tmp_path: Path) -> None:
    servers = {f"broker-{n}": {"commands": COMMANDS} for n in (0, 10, 2)}
    target = {"fault": "kill", "target": "broker-0 + broker-10"}
    campaign = check(written(tmp_path, target, servers=servers)).campaign
    told = external_cluster.outside(runs_of(campaign.resolved(seed=7))[0].cluster)
    assert told.brokers == (0, 2, 10)
    absent = refused(written(tmp_path, {**target, "target": "broker-1"}, servers=servers))
    assert any("there is no broker-1" in line for line in absent)


def test_files_and_commands_are_those_of_the_directory_where_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients have working directories of their own, and the clean-up may run anywhere."""
    client = {"security.protocol": "ssl", "ssl.ca.location": "ca.pem"}
    secrets = {"ssl.key.password": {"file": "password"}}
    servers = {**SERVERS, "broker-2": {"container": "kafka-2"}}
    path = written(tmp_path, KILL, servers=servers, client=client, secrets=secrets)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine:2375")
    told = external_cluster.outside(runs_of(check(path).campaign.resolved(seed=7))[0].cluster)
    assert told.client["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert told.secrets["ssl.key.password"].file == str(tmp_path / "password")
    assert told.handles[1].directory == str(tmp_path)
    assert told.handles[2].words(Action.KILL) == "docker -H tcp://engine:2375 kill kafka-2"


def test_confirmation_precedes_any_connection(tmp_path: Path) -> None:
    """Else another user's campaign could send the password to its own broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        path = written(tmp_path, CREATE, **{"bootstrap.servers": address})
        done = run(path, "run", path.name, "--out", "results")
        assert done.returncode == 2, done.stderr
        assert f"first run on the cluster at {address}" in done.stderr
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not (tmp_path / "results").exists()


def test_a_killed_unit_is_kept_from_starting_again() -> None:
    ssh = {"address": "kafka-1", "user": "admin"}
    hand = handle(HandSpec.model_validate_json(f'{{"systemd": "kafka", "ssh": {json.dumps(ssh)}}}'))
    kill = hand.words(Action.KILL)
    assert kill == (
        "admin@kafka-1: sudo -n systemctl kill --signal=SIGKILL kafka; sudo -n systemctl stop kafka"
    )
    assert hand.actions == frozenset(Action)


@pytest.mark.parametrize(
    ("declared", "warned"),
    [
        ({"broker.session.timeout.ms": 9000}, True),
        ({"zookeeper.session.timeout.ms": 18000}, True),
        ({"replica.lag.time.max.ms": 30000}, False),
        ({}, False),
    ],
)
def test_hold_that_is_too_short_is_warned_of_by_declared_timeouts(
    tmp_path: Path, declared: dict[str, int], warned: bool
) -> None:
    short = {"fault": "pause", "target": "broker-1", "hold": "2s"}
    file = written(tmp_path, short, servers=SERVERS, cluster={"properties": declared})
    found = [str(one) for one in warnings(check(file).campaign)]
    assert any("before the cluster notices" in line for line in found) is warned
