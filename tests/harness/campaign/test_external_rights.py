"""Campaigns for a cluster that was there before: what a dry run tells, the harm to others, the
rights that a campaign needs, and the example for Strimzi that grants them."""

import re
from pathlib import Path

import pytest
import yaml

from ackproof.harness import external_cluster
from ackproof.harness.campaign.lint import warnings
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.problems import external as external_problems
from ackproof.harness.campaign.validation import check
from ackproof.infra.backends.kubernetes.cluster import IMAGE
from ackproof.infra.systems.external.probes import Right
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Aim
from tests.support.builders.external_campaigns import (
    COMMANDS,
    CREATE,
    HOSTS,
    KILL,
    SERVERS,
    TOPIC,
    WITH_AGENTS,
    run,
    voters,
    written,
)

DOCS = Path(__file__).parents[3] / "docs"


def test_dry_run_lists_hosts_and_commands_without_a_connection(tmp_path: Path) -> None:
    servers = {
        "broker-1": {"commands": COMMANDS},
        "broker-2": {"systemd": "kafka", "ssh": {"address": "kafka-2", "user": "root"}},
        "broker-3": {"compose": "kafka/kafka-3"},
    }
    secrets = {"sasl.password": {"env": "NOT_SET_ANYWHERE"}}
    client = {"security.protocol": "SASL_SSL", "sasl.username": "ackproof"}
    controllers = voters("1@kafka-1:9093,2@kafka-2:9093", client={"security.protocol": "SSL"})
    path = written(tmp_path, KILL, servers=servers, secrets=secrets, client=client, **controllers)
    done = run(path, "run", path.name, "--dry-run")
    assert done.returncode == 0, done.stderr
    for line in (
        "connects to kafka-1:9092, deploys nothing",
        "with sasl.username=ackproof, security.protocol=SASL_SSL",
        "reads sasl.password from $NOT_SET_ANYWHERE",
        "reads the metadata log from kafka-1:9093, kafka-2:9093\nwith security.protocol=SSL",
        "broker-1, to kill: hand kill",
        "broker-2, to start: root@kafka-2: systemctl start kafka",
        "broker-3, to pause: docker pause kafka/kafka-3",
        "creates, and deletes at the end: ackproof-00000007-acks-all-minisr-2;",
        "servers-stay-up",
        "no agent is beside the brokers",
    ):
        assert line in done.stdout, done.stdout
    assert not (tmp_path / "results").exists()


def test_dry_run_lists_the_agent_s_actions_by_host(tmp_path: Path) -> None:
    servers = {name: {**one, "commands": {"start": ["start"]}} for name, one in HOSTS.items()}
    cut = {"fault": "cut", "target": "broker-1 -> broker-2"}
    path = written(tmp_path, cut, servers=servers, agent=True)
    done = run(path, "run", path.name, "--dry-run")
    assert done.returncode == 0, done.stderr
    for line in (
        "broker-1, to pause: a signal by the agent",
        "broker-2, beside its process on admin@kafka-2: the agent in /var/lib/ackproof, as root",
        "agents do only what the faults of the timeline need: drop or delay packets",
    ):
        assert line in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("fault", "target", "harm"),
    [
        ("kill", "broker-1", "harm to others, too: all that these servers lead, replicate,"),
        ("pause", "leader(any, any)", "harm to others, too: all that these servers lead,"),
        ("cut", "broker-1 -> broker-2", "harm to others, too: packets between these hosts"),
        ("disk-full", "broker-1", "harm to others, too: the volume of the log directories"),
        ("starve-cpu", "broker-1", "harm to others, too: these brokers are slower"),
        ("starve-memory", "broker-1", "harm to others, too: these brokers may be killed"),
        ("delete-topic", "all", "harm to topics, groups and clients of the run alone"),
        ("reassign", "topic(any)", "harm to topics, groups and clients of the run alone"),
        ("crash-client", "clients", "harm to topics, groups and clients of the run alone"),
    ],
)
def test_harm_of_a_fault_to_others_is_named(
    tmp_path: Path, fault: str, target: str, harm: str
) -> None:
    cells = {"replication.factor": 2, "min.insync.replicas": 1}
    path = written(tmp_path, {"fault": fault, "target": target}, cells=cells, **WITH_AGENTS)
    (line,) = external_cluster.harms(runs_of(check(path).campaign))
    assert line.startswith(f"{fault} of ")
    assert f": {harm}" in line


@pytest.mark.parametrize(
    ("fault", "harm"),
    [
        ("operator-roll", "by the annotation strimzi.io/manual-rolling-update"),
        ("drain", "a drained node takes no new pods of anyone"),
    ],
)
def test_harm_of_a_fault_on_pods_is_that_of_the_fault(
    tmp_path: Path, fault: str, harm: str
) -> None:
    strimzi = {"kubernetes": {"namespace": "kafka", "strimzi": "mine"}}
    path = written(tmp_path, {"fault": fault, "target": "broker-0"}, **strimzi)
    (line,) = external_cluster.harms(runs_of(check(path).campaign))
    assert harm in line
    assert ("node" in line) == (fault == "drain"), line


GROUPS = {"groups": [{"name": "g", "members": 1}]}


OWN = "Create on the topic ackproof-00000007-own-"


@pytest.mark.parametrize(
    ("fault", "workload", "needed"),
    [
        (
            KILL,
            {},
            {"Describe on the cluster": "every run", f"Write on the topic {TOPIC}": "every run"},
        ),
        (KILL, GROUPS, {f"Delete on the group {TOPIC}-g": "groups"}),
        (KILL, GROUPS, {"Describe on the topic __consumer_offsets": "groups"}),
        (
            KILL,
            {"kind": "transactions"},
            {
                "Write on the transactional id ackproof-00000007-": "transactions",
                "Describe on the topic __transaction_state": "transactions",
            },
        ),
        (CREATE, {}, {OWN: "create-topic"}),
        (
            {"fault": "elect-preferred", "target": "topic(any)"},
            {},
            {"Alter on the cluster": "elect-preferred"},
        ),
        (
            {"fault": "alter-min-isr", "target": "topic(any)"},
            {},
            {f"AlterConfigs on the topic {TOPIC}": "alter-min-isr"},
        ),
    ],
)
def test_needed_rights_follow_from_workload_and_faults(
    tmp_path: Path, fault, workload, needed: dict[str, str]
) -> None:
    cells = {"enable.idempotence": True}
    path = written(tmp_path, fault, cells=cells, workload=workload, servers=SERVERS)
    campaign = check(path).campaign.resolved(seed=7)
    found = external_cluster.needed_rights(campaign, runs_of(campaign)[0])
    words = {str(right): by for right, by in found.items()}
    assert {one: words.get(one) for one in needed} == needed
    assert (OWN in words) == (fault == CREATE)
    assert ("Alter on the cluster" in words) == (fault["fault"] == "elect-preferred")
    page = (DOCS / "your-cluster.md").read_text(encoding="utf-8")
    table = page.partition("| resource | operations |")[2].partition("\n\n")[0]
    assert [one.words for one in found if one.words not in table] == []


STRIMZI = DOCS.parent / "deploy" / "strimzi"


def of_strimzi(kind: str, *, optional: bool = False, file: str = "ackproof.yaml") -> dict:
    """Return the object of a kind in an example. ``optional``: with the lines marked by ``#+``."""
    text = (STRIMZI / file).read_text(encoding="utf-8")
    documents = yaml.safe_load_all(re.sub(r"(?m)^( *)#[+]", r"\1", text) if optional else text)
    (found,) = (one for one in documents if one["kind"] == kind)
    return found


@pytest.mark.parametrize(
    ("workload", "faults"),
    [
        ({}, external_cluster.FAULTS_WITH_RIGHTS),
        (GROUPS, {"alter-min-isr", "create-topic", "elect-preferred"}),
        ({"kind": "transactions"}, {"reassign", "grow-topic", "delete-records"}),
    ],
)
def test_user_of_the_strimzi_example_has_every_right(tmp_path: Path, workload, faults) -> None:
    entries = [
        {"fault": fault, "target": "all" if FAULTS[fault].aim is Aim.PLACES else "topic(any)"}
        for fault in sorted(faults)
    ]
    cells = {"enable.idempotence": True, "replication.factor": 2}
    path = written(tmp_path, *entries, cells=cells, workload=workload, **voters())
    campaign = check(path).campaign.resolved(seed=7)
    rules = [
        (one["resource"], operation)
        for one in of_strimzi("KafkaUser")["spec"]["authorization"]["acls"]
        for operation in one["operations"]
    ]

    def allows(resource: dict, operation: str, right: Right) -> bool:
        of_kind = resource["type"].lower() == right.resource.replace(" ", "")
        prefix = resource.get("patternType") == "prefix"
        name = resource.get("name", "")
        named = right.name.startswith(name) if prefix else right.name == name
        return of_kind and named and operation == right.words

    needed = external_cluster.needed_rights(campaign, runs_of(campaign)[0])
    lacking = [one for one in needed if not any(allows(*rule, one) for rule in rules)]
    assert lacking == []


@pytest.mark.parametrize("optional", [False, True], ids=["plain", "agents and controllers"])
def test_pod_of_the_strimzi_example_mounts_the_files_of_its_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optional: bool
) -> None:
    pod = of_strimzi("Pod", optional=optional)
    (container,) = pod["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    path = tmp_path / "mine.yaml"
    document = of_strimzi("ConfigMap", optional=optional)["data"]["mine.yaml"]
    path.write_text(document, encoding="utf-8")
    campaign = check(path).campaign
    assert list(warnings(campaign)) == []
    spec = campaign.cluster.external
    assert spec is not None
    assert spec.kubernetes is not None
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    files = {
        f"{mounts[volume['name']]}/{item['path']}"
        for volume in pod["spec"]["volumes"]
        for item in volume.get("secret", {}).get("items", ())
    }
    keepers = {} if spec.controllers is None else spec.controllers.client
    named = {**spec.client, **{f"controllers.{name}": value for name, value in keepers.items()}}
    assert {value for name, value in named.items() if name.endswith("location")} == files
    account = of_strimzi("ServiceAccount")["metadata"]
    assert account["name"] == pod["spec"]["serviceAccountName"]
    assert account["namespace"] == spec.kubernetes.namespace
    assert (spec.agent, bool(keepers)) == (optional, optional)


def test_network_policy_of_the_strimzi_example_admits_its_pod_to_its_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMAGE, "node")
    path = tmp_path / "mine.yaml"
    path.write_text(of_strimzi("ConfigMap", optional=True)["data"]["mine.yaml"], encoding="utf-8")
    (plan,) = runs_of(check(path).campaign.resolved(seed=7))
    controllers = external_cluster.outside(plan.cluster).controllers
    (admitted,) = of_strimzi("NetworkPolicy", file="network-policy.yaml")["spec"]["ingress"]
    (peer,), (port,) = admitted["from"], admitted["ports"]
    assert peer["podSelector"]["matchLabels"] == of_strimzi("Pod")["metadata"]["labels"]
    assert {at for _, at in controllers.voters.values()} == {port["port"]}


def test_every_order_to_an_external_cluster_has_its_rights() -> None:
    orders = {
        name
        for name in FAULTS
        if not FAULTS[name].aim.affects_servers
        and external_problems.refused_everywhere(name) is None
    }
    assert orders == external_cluster.FAULTS_WITH_RIGHTS


def test_dry_run_names_the_harm_of_a_command_as_unknown(tmp_path: Path) -> None:
    commands = {key: ["/bin/true"] for key in ("inject", "verify", "heal", "healed")}
    own = {"fault": "command", "parameters": commands}
    done = run(written(tmp_path, own, KILL, servers=SERVERS), "run", "mine.yaml", "--dry-run")
    assert "\ncommand of all: harm to others, too: what it does is not known" in done.stdout
    topic = "ackproof-00000007-acks-all-minisr-2"
    assert f"\nkill of leader({topic}, any): harm to others, too: " in done.stdout
