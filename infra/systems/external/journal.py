"""A journal of the changes of a run to an external cluster, written before each is made.

A later process can therefore undo them after a kill -9. Each entry is a line of JSON, synced to
disk. The first has what is needed for that: how to connect (the places of secrets) and how to start
what was stopped.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine import own_commands
from ackproof.infra.systems.external.description import Action, DescribedCluster

FILE = "external.jsonl"
"""The name of the journal in the directory of a run."""


@dataclass(slots=True, kw_only=True)
class Left:
    """The changes that must be undone.

    Attributes:
        down: The action that brings each broker back, START or RESUME, by ``broker.id``.
        topics: The topics that were made, or were about to be.
        groups: The groups whose offsets may be kept.
        attached: The name of the run for the hosts beside whose brokers its agents may be; None if
            there are none.
        cordoned: The name of the run by which each node of Kubernetes is cordoned, by the node.
        rolling: The uid of the pod whose roll was ordered, and the name of the run, by
            ``broker.id``.
        limited: The name of the run that has limited the CPU of each broker's pod, by
            ``broker.id``.
        policies: The name of the run that has written NetworkPolicies; None if none has.
    """

    described: DescribedCluster
    down: dict[int, Action] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    attached: str | None = None
    cordoned: dict[str, str] = field(default_factory=dict)
    rolling: dict[int, tuple[str, str]] = field(default_factory=dict)
    limited: dict[int, str] = field(default_factory=dict)
    policies: str | None = None

    @property
    def anything(self) -> bool:
        in_kubernetes = (self.cordoned, self.rolling, self.limited, self.policies)
        others = (self.topics, self.groups, self.attached, *in_kubernetes)
        return bool(self.down) or any(map(bool, others))


class Journal:
    """A journal, made by :meth:`begin`, or that of a run that has ended. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def begin(cls, path: Path, described: DescribedCluster) -> "Journal":
        """Return a new journal."""
        journal = cls(path)
        journal._write({"cluster": described.model_dump_json(by_alias=True)})
        return journal

    def down(self, broker: int, back: Action) -> None:
        """Note that a broker is about to be stopped; ``back`` undoes that."""
        self._write({"down": broker, "back": back})

    def up(self, broker: int) -> None:
        """Note that a broker was started, or resumed."""
        self._write({"up": broker})

    def topic(self, topic: str) -> None:
        """Note that a topic is about to be made."""
        self._write({"topic": topic})

    def group(self, group: str) -> None:
        """Note that a group is about to commit."""
        self._write({"group": group})

    def gone(self, thing: str) -> None:
        """Note that a topic or a group was deleted."""
        self._write({"gone": thing})

    def attached(self, run: str) -> None:
        """Note that agents are about to be put beside the brokers, for the run of that name."""
        self._write({"attached": run})

    def detached(self) -> None:
        """Note that all of these agents were removed."""
        self._write({"attached": None})

    def cordoned(self, node: str, run: str) -> None:
        """Note that a node of Kubernetes is about to be cordoned, by the run of that name."""
        self._write({"cordoned": node, "by": run})

    def uncordoned(self, node: str) -> None:
        """Note that a node was uncordoned."""
        self._write({"uncordoned": node})

    def rolling(self, broker: int, uid: str, run: str) -> None:
        """Note that Strimzi's operator is about to be told to roll a pod, by the run of that
        name."""
        self._write({"rolling": broker, "uid": uid, "by": run})

    def rolled(self, broker: int) -> None:
        """Note that nothing is left of the order to roll a broker's pod."""
        self._write({"rolled": broker})

    def limited(self, broker: int, run: str) -> None:
        """Note that the CPU of a broker's pod is about to be limited, by the run of that name."""
        self._write({"limited": broker, "by": run})

    def lifted(self, broker: int) -> None:
        """Note that nothing is left of the limit of a broker's pod."""
        self._write({"lifted": broker})

    def policies(self, run: str | None) -> None:
        """Note that NetworkPolicies are about to be written by the run of that name, or, with None,
        that all of them are removed."""
        self._write({"policies": run})

    def left(self) -> Left:
        """Return the changes that must be undone. Raises InfraError for a file that cannot be
        read."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            left = Left(
                described=DescribedCluster.model_validate_json(json.loads(lines[0])["cluster"])
            )
            for line in lines[1:]:
                _take(left, line)
        except OSError as error:
            raise InfraError(f"{self._path} cannot be read: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            damage = "is damaged: the changes that the run left on the cluster are unknown"
            raise InfraError(f"{self._path} {damage}") from error
        return left

    def _write(self, entry: dict[str, object]) -> None:
        with self._lock:
            own_commands.append_entry(self._path, entry)


def _take(left: Left, line: str) -> None:
    try:
        entry = json.loads(line)
    except ValueError:
        return  # it was being written when the harness was killed, so it was not done yet
    if "down" in entry:
        left.down[int(entry["down"])] = Action(entry["back"])
    elif "up" in entry:
        left.down.pop(int(entry["up"]), None)
    elif "topic" in entry:
        left.topics.append(entry["topic"])
    elif "group" in entry:
        left.groups.append(entry["group"])
    elif "attached" in entry:
        left.attached = entry["attached"]
    elif "gone" in entry:
        left.topics[:] = [topic for topic in left.topics if topic != entry["gone"]]
        left.groups[:] = [group for group in left.groups if group != entry["gone"]]
    else:
        _take_change_of_kubernetes(left, entry)


def _take_change_of_kubernetes(left: Left, entry: Mapping[str, Any]) -> None:
    if "cordoned" in entry:
        left.cordoned[entry["cordoned"]] = entry["by"]
    elif "uncordoned" in entry:
        left.cordoned.pop(entry["uncordoned"], None)
    elif "rolling" in entry:
        left.rolling[int(entry["rolling"])] = entry["uid"], entry["by"]
    elif "rolled" in entry:
        left.rolling.pop(int(entry["rolled"]), None)
    elif "limited" in entry:
        left.limited[int(entry["limited"])] = entry["by"]
    elif "lifted" in entry:
        left.limited.pop(int(entry["lifted"]), None)
    elif "policies" in entry:
        left.policies = entry["policies"]
