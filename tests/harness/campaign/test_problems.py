"""A wrong campaign file is told everything that is wrong with it, once, and where.

Files as people get them wrong, each with all that is said of it; and a right file made wrong in one
place, of which something is said in that line.
"""

import contextlib
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ackproof.config import documents, schemas
from ackproof.config.documents import Document
from ackproof.harness.campaign.docs import schema
from ackproof.harness.campaign.validation import CampaignRefused, check

RIGHT = """\
name: right
runs: 1
seed: 7
cluster:
  backend: local
  system: bundled
  brokers: [3, 4]
  zookeepers: 1
  properties:
    zookeeper.session.timeout.ms: 3000
    replica.lag.time.max.ms: 4000
    auto.create.topics.enable: false
  compare:
    controller: {ackproof.coordination: controller}
    leader:
      ackproof.coordination: leader
cells:
  acks: ["1", all]
  min.insync.replicas: [1, 2]
  replication.factor: 3
  partitions: 3
  unclean.leader.election.enable: false
  topic:
    segment.bytes: 1048576
  producer: {linger.ms: 5}
expect:
  - where: {acks: 1, cluster: leader}
    verdict: fail
workload:
  kind: produce
  rate: 300
  record.bytes: 100
  producers: 2
  readers: 1
  groups:
    - name: audit
      members: 2
      delivery: at-most-once
      static: true
      consumer:
        session.timeout.ms: 6000
    - {name: other, members: 4}
evidence:
  acked.min: 1000
schedule:
  warmup: 4s
  gap: [3s, 5s]
  settle: 10s
  tail: 4s
  order: shuffled
  rounds: 2
faults:
  - fault: kill
    target: leader(acks-all-minisr-2, any)
    hold: [5s, 6s]
  - fault: isolate
    target: one(isr(acks-1-minisr-1, 0) - leader(acks-1-minisr-1, 0))
    parameters: {direction: in}
  - fault: cut
    target: broker-1 <-> zookeeper
    at: 20s
  - {fault: pause, target: "leader(__consumer_offsets, 0)"}
failover:
  partitions: [10, 100]
  replication.factor: 3
  target: one(all - controller)
  limit: 5m
limits:
  collect: 3m
"""
HEAD = "name: a\ncells: {acks: all}\nworkload: {rate: 1}\n"

WRONG = {
    "groups": (
        "name: a\n"
        + "cells: {acks: all}\n"
        + "workload:\n"
        + "  rate: 1\n"
        + "  readers: -1\n"
        + "  groups:\n"
        + "  - {name: a, members: 0, delivery: at-lest-once}\n"
        + "  - {name: A b, member: 1}\n"
        + "  - {name: a, members: 1, consumer: {session.timout.ms: 1, group.id: b, check.crcs: 2}}"
        + "\n"
        + "faults: []\n",
        [
            "5:12: workload.readers: Input should be greater than or equal to 0, not -1",
            "7:24: workload.groups[0].members: Input should be greater than or equal to 1, not 0",
            "7:37: workload.groups[0].delivery: Input should be 'at-least-once', 'at-most-once' or "
            "'auto-commit', not 'at-lest-once'; did you mean at-least-once?",
            "8:12: workload.groups[1].name: small letters, digits and -, a letter or digit first, "
            "not 'A b'",
            "8:17: workload.groups[1].member: unknown key; did you mean members?",
            "9:12: workload.groups[2].name: workload.groups[0] also has the name 'a'",
            "9:57: workload.groups[2].consumer.session.timout.ms: No such configuration property: "
            '"session.timout.ms"; did you mean session.timeout.ms?',
            (
                "9:70: workload.groups[2].consumer.group.id: must not be set: it is made of the "
                "topic and of the group's name"
            ),
            (
                "9:85: workload.groups[2].consumer.check.crcs: must not be set: a record "
                "that was damaged in transit would count as read"
            ),
        ],
    ),
    "what groups and faults say of each other": (
        "name: a\n"
        + "cells: {acks: all, partitions: 2}\n"
        + "cluster: {properties: {offsets.topic.num.partitions: 2}}\n"
        + "workload:\n"
        + "  rate: 1\n"
        + "  groups:\n"
        + "  - {name: a, members: 3, consumer: {session.timeout.ms: 400000}}\n"
        + "faults:\n"
        + "- {fault: kill, target: 'leader(__consumer_offsets, 1)'}\n"
        + "- {fault: kill, target: 'leader(__consumer_offsets, 2)'}\n"
        + "- {fault: isolate, target: 'leader(_consumer_offsets, 0)'}\n"
        + "- {fault: elect-preferred, target: 'partition(__consumer_offsets, 0)'}\n",
        [
            "7:37: workload.groups[0].consumer: `max.poll.interval.ms`must be >= "
            "`session.timeout.ms`",
            "10:25: faults[1].target: __consumer_offsets has the partitions 0 to 1",
            "11:28: faults[2].target: no cell has the topic '_consumer_offsets'; did you mean "
            "__consumer_offsets? There are __consumer_offsets, acks-all-minisr-1",
            "12:36: faults[3].target: no cell has the topic '__consumer_offsets'; there is "
            "acks-all-minisr-1",
        ],
    ),
    "no consumers": (
        HEAD
        + "faults:\n"
        + "- {fault: crash-client, target: clients, parameters: {role: consumer}}\n"
        + "- {fault: kill, target: 'leader(__consumer_offsets, 0)'}\n",
        [
            (
                "5:61: faults[0].parameters.role: no cell has consumers: add workload.readers or "
                "workload.groups"
            ),
            "6:25: faults[1].target: no cell has the topic '__consumer_offsets'; there is "
            "acks-all-minisr-1",
        ],
    ),
    "one misspelt timeout is one problem, of which no other follows": (
        HEAD
        + "cluster:\n"
        + "  properties:\n"
        + "    zookeeper.sesion.timeout.ms: 3000\n"
        + "faults:\n"
        + "- {fault: kill, target: one, hold: 5s}\n"
        + "- {fault: pause, target: zookeeper, hold: 5s}\n",
        [
            "6:5: cluster.properties.zookeeper.sesion.timeout.ms: unknown broker property; "
            "did you mean zookeeper.session.timeout.ms?"
        ],
    ),
    "a type hides no name": (
        HEAD
        + "runs: many\n"
        + "cluster: {backend: lokal, system: Bundled, brokers: three}\n"
        + "faults:\n"
        + "- {fault: kil, target: 'lead(a, 0)', hold: 5}\n"
        + "- fault: isolate\n"
        + "  target: one(al)\n"
        + "  parameters: {directoin: up}\n",
        [
            "4:7: runs: Input should be a whole number, not 'many'",
            "5:20: cluster.backend: unknown backend 'lokal'; did you mean local?",
            "5:35: cluster.system: unknown system 'Bundled'; did you mean bundled?",
            "5:53: cluster.brokers: Input should be a whole number, not 'three'",
            "7:11: faults[0].fault: unknown fault 'kil'; did you mean kill?",
            "7:24: faults[0].target: 'lead' is not a target; did you mean leader?",
            "7:44: faults[0].hold: a length of time needs a number and a unit, like 5s or 300ms: 5",
            "9:11: faults[1].target: 'al' is not a target; did you mean all?",
            "10:16: faults[1].parameters.directoin: unknown key; did you mean direction?",
        ],
    ),
    "values of properties, before anything is deployed": (
        "name: a\n"
        + "workload: {rate: 1}\n"
        + "faults: []\n"
        + "cells:\n"
        + "  acks: [all, 2]\n"
        + "  topic: {segment.bytes: [1, 2000], segmnt.ms: 5, acks: 1, retention.ms: 5}\n"
        + "  producer: {linger.ms: soon, acks: 1, bootstrap.servers: x, linger.mss: 1}\n"
        + "cluster:\n"
        + "  properties: {broker.id: 1, log.roll.ms: [5, x], delete.topic.enable: yes, 1: 2}\n",
        [
            "5:9: cells.acks: acks is 0, 1 or all (-1), not 2",
            "6:27: cells.topic.segment.bytes[0]: a whole number from 14 to 2,147,483,647, not 1",
            "6:37: cells.topic.segmnt.ms: unknown topic property; did you mean segment.ms?",
            "6:51: cells.topic.acks: belongs to cells.acks",
            "7:25: cells.producer.linger.ms: Invalid value for configuration property "
            '"queue.buffering.max.ms"',
            "7:31: cells.producer.acks: belongs to cells.acks",
            (
                "7:59: cells.producer.bootstrap.servers: must not be set: the harness knows "
                "where the cluster is"
            ),
            '7:74: cells.producer.linger.mss: No such configuration property: "linger.mss"; did '
            "you mean linger.ms?",
            "9:16: cluster.properties.broker.id: is set for each broker by the harness",
            "9:47: cluster.properties.log.roll.ms[1]: a whole number from 1, not 'x'",
            (
                "9:72: cluster.properties.delete.topic.enable: yes means true in YAML 1.1, but "
                "'yes' in YAML 1.2: write the one that is meant"
            ),
            "9:77: cluster.properties.1: unknown broker property; those that there are: "
            "docs/broker-properties.md",
        ],
    ),
    "keys in the wrong place": (
        HEAD
        + "faults: []\n"
        + "rate: 5\n"
        + "cluster: {log.segment.bytes: 5, borkers: 3}\n"
        + "schedule: {record.bytes: 3, hold: 4s, seldom: 1}\n"
        + "limits: {final_read: 5s}\n",
        [
            "5:1: rate: unknown key; it belongs to workload",
            "6:11: cluster.log.segment.bytes: unknown key; it belongs to cluster.properties",
            "6:33: cluster.borkers: unknown key; did you mean brokers?",
            "7:12: schedule.record.bytes: unknown key; it belongs to workload",
            "7:29: schedule.hold: unknown key; it belongs to faults[]",
            "7:39: schedule.seldom: unknown key; known: warmup, gap, tail, settle, order, rounds, "
            "lasts, lanes, at.most, until",
            "8:10: limits.final_read: unknown key; did you mean final.read?",
        ],
    ),
    "faults and stories": (
        HEAD
        + "faults:\n"
        + "- {stroy: crash-loop, topic: acks-1}\n"
        + "- {fualt: kill, target: one}\n"
        + "- {story: crash-loop, topic: acks-1, hold: 3s}\n"
        + "- {target: one}\n",
        [
            "5:4: faults[0].stroy: unknown key; did you mean story?",
            "6:4: faults[1].fualt: unknown key; did you mean fault?",
            "7:38: faults[2].hold: unknown key; known: story, topic, partition, rack, at, weight, "
            "seed",
            "8:3: faults[3].fault: is missing",
        ],
    ),
    "what is missing is missing in its section": (
        "name: a\ncells:\n  partitions: 1\nworkload: {}\nfaults:\n- target: one\n- fault: kill\n",
        [
            "2:1: cells.acks: is missing",
            "4:1: workload.rate: is missing",
            "6:3: faults[0].fault: is missing",
            "7:3: faults[1].target: is missing",
        ],
    ),
    "nothing where something belongs": (
        "name:\ncells:\nworkload: 5\nfaults: {}\nlimits: [1]\n",
        [
            "1:6: name: Input should be text, not nothing",
            "2:7: cells: Input should be a mapping of keys to values, not nothing",
            "3:11: workload: Input should be a mapping of keys to values, not 5",
            "4:9: faults: Input should be a list, not {}",
            "5:9: limits: Input should be a mapping of keys to values, not [1]",
        ],
    ),
    "YAML that readers do not agree on": (
        HEAD + "faults: []\nruns: 010\nseed: 1:30\nruns: 2\nevidence: {acked.min: !!int '3'}\n",
        [
            "5:7: runs: 010 means 8 in YAML 1.1, but 10 in YAML 1.2: write the one that is meant",
            (
                "6:7: seed: 1:30 means 90 in YAML 1.1, but '1:30' in YAML 1.2: write the one "
                "that is meant"
            ),
            "7:1: runs: is given twice; the first is in line 5",
            "8:23: file: tags are not read: leave tag:yaml.org,2002:int out",
        ],
    ),
    "what right sections say of each other, whatever is wrong with others": (
        "name: Not Nice\n"
        + "cells: {acks: all, replication.factor: 4, min.insync.replicas: 5}\n"
        + "workload: {rate: 1, record.bytes: 3}\n"
        + "expect: [{where: {acks: 1}, verdict: fail}]\n"
        + "faults:\n"
        + "- {fault: kill, target: 'leader(acks-al-minisr-5, 0)'}\n"
        + "- {fault: kill, target: 'leader(acks-all-minisr-5, 1) + broker-4'}\n",
        [
            "1:7: name: small letters, digits, dots, _ and -, a letter or digit first, "
            "not 'Not Nice'",
            "2:40: cells.replication.factor: 4 replicas need as many brokers, but there are 3",
            "2:64: cells.min.insync.replicas: 5 is above the replication factor 4: no acks=all "
            "can succeed",
            (
                "3:35: workload.record.bytes: 3 bytes is not possible: at least 39 are needed to "
                "identify a record, and the producer's message.max.bytes has room for 999488 (in "
                "acks-all.minisr-5)"
            ),
            "4:18: expect[0].where: no cell has acks: 1",
            "6:25: faults[0].target: no cell has the topic 'acks-al-minisr-5'; did you mean "
            "acks-all-minisr-5? There is acks-all-minisr-5",
            "7:25: faults[1].target: acks-all-minisr-5 has the partitions 0 to 0",
            "7:25: faults[1].target: there is no broker-4; there are broker-1, broker-2, "
            "broker-3, zookeeper-1, client-1",
        ],
    ),
}


def refusal(text: str, directory: Path) -> CampaignRefused:
    file = directory / "campaign.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CampaignRefused) as refused:
        check(file)
    return refused.value


@pytest.mark.parametrize("name", WRONG)
def test_each_problem_is_reported_once_with_its_position(name: str, tmp_path: Path) -> None:
    text, told = WRONG[name]
    lines = str(refusal(text, tmp_path)).splitlines()
    assert sorted(line.removeprefix(f"{tmp_path}/campaign.yaml:") for line in lines) == sorted(told)
    positions = [one.position for one in refusal(text, tmp_path).problems]
    assert positions == sorted(positions), "in the order of the file"


# --- a right file, made wrong in one place -------------------------------------------------------


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Document:
    file = tmp_path_factory.mktemp("right") / "right.yaml"
    file.write_text(RIGHT, encoding="utf-8")
    assert check(file)
    return documents.read(file)


def misspelt(word: str, at: int, how: str) -> str:
    at %= len(word)
    left, one, rest = word[:at], word[at], word[at + 1 :]
    return {
        "left out": left + rest,
        "twice": left + one + one + rest,
        "another": left + ("x" if one != "x" else "z") + rest,
        "swapped": left + rest[:1] + one + rest[1:],
    }[how]


def replaced(line: int, column: int, old: str, new: str) -> str:
    lines = RIGHT.splitlines(keepends=True)
    text = lines[line - 1]
    assert text[column - 1 :].startswith(old)
    lines[line - 1] = text[: column - 1] + new + text[column - 1 + len(old) :]
    return "".join(lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    number=st.integers(0, 10_000),
    at=st.integers(0, 50),
    how=st.sampled_from(["left out", "twice", "another", "swapped"]),
)
def test_misspelt_key_is_reported_on_its_line(
    right: Document, tmp_path: Path, number: int, at: int, how: str
) -> None:
    everything = list(right.keys)
    steps = everything[number % len(everything)]
    assume(steps[:-1] != ("cluster", "compare"))  # names that the file gives
    key, position = str(steps[-1]), right.keys[steps]
    wrong = misspelt(key, at, how)
    assume(wrong not in ("", key, *schemas.keys(schema(), steps[:-1])))
    told = refusal(replaced(position.line, position.column, key, wrong), tmp_path).problems
    assert position.line in [one.position.line for one in told if one.position]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    number=st.integers(0, 10_000),
    wrong=st.sampled_from(["[[1]]", "{x: [1]}", "yes", "010", "!!str x", "'?'", "- x", ": :"]),
)
def test_wrong_value_is_reported_on_its_line(
    right: Document, tmp_path: Path, number: int, wrong: str
) -> None:
    lines = RIGHT.splitlines()
    places = [
        position
        for steps, position in right.positions.items()
        if steps in right.keys and right.keys[steps] != position
    ]
    position = places[number % len(places)]
    line, column = lines[position.line - 1], position.column - 1
    before, value = line[:column], line[column:]
    assume("{" not in before)  # whose end in the line is not the value's
    text = replaced(position.line, position.column, value, wrong)
    told = refusal(text, tmp_path).problems
    assert position.line in [one.position.line for one in told if one.position]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(start=st.integers(0, len(RIGHT)), length=st.integers(0, 60), instead=st.text(max_size=20))
@example(start=0, length=len(RIGHT), instead="")
def test_whatever_is_written_is_right_or_refused(
    tmp_path: Path, start: int, length: int, instead: str
) -> None:
    file = tmp_path / "campaign.yaml"
    text = RIGHT[:start] + instead + RIGHT[start + length :]
    file.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    with contextlib.suppress(CampaignRefused):
        check(file)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({"broker-1": {"compose": "kafka_1"}}, "PROJECT/SERVICE, not 'kafka_1'"),
        ({"kafka3": {"container": "kafka3"}}, "broker-ID with its broker.id"),
        (
            {"broker-1": {"systemd": "k", "ssh": {"address": "2001:db8::5", "user": "root"}}},
            "ssh.address: a host name or an IPv4 address, not '2001:db8::5'",
        ),
        (
            {"broker-1": {"systemd": "k", "ssh": {"address": "a", "user": "no one"}}},
            "ssh.user: a user name",
        ),
        (
            {
                "broker-1": {
                    "systemd": "k",
                    "ssh": {"address": "a", "user": "u", "passphrase.env": "9 x"},
                }
            },
            "the name of an environment variable",
        ),
        ({"broker-1": {"systemd": ""}}, "Input should not be empty"),
    ],
)
def test_refusal_of_a_text_has_words_and_no_pattern(tmp_path: Path, servers, words: str) -> None:
    cluster = {
        "system": "external",
        "backend": "here",
        "brokers": 1,
        "external": {"bootstrap.servers": "k:9092", "servers": servers},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"name": "a", "cluster": cluster}), encoding="utf-8")
    with pytest.raises(CampaignRefused) as refused:
        check(path)
    told = str(refused.value)
    assert words in told
    assert "pattern" not in told
    assert "^" not in told
