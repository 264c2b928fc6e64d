"""The remote tier of Kafka's tiered storage (KIP-405), for clusters whose properties ask for it
(:func:`infra.systems.properties.needs_tier`).

Segments are kept by Kafka's own ``LocalTieredStorage``, of the jar with its tests, in a directory
that all brokers see. The program ``RemoteTier`` beside this module puts it behind a gate, where
each broker's operations can be refused or delayed, and are counted.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path, PurePosixPath

from ackproof.infra.api.capabilities import TierProblem, TierUse
from ackproof.infra.api.interface import InfraError, Node
from ackproof.infra.machine.software import cached, find_java
from ackproof.infra.systems.kafka import jars
from ackproof.infra.systems.kafka.releases import (
    Release,
    keep,
    place_of,
    put,
    run_java,
    sums_of,
)
from ackproof.infra.systems.properties import TIER_CLASS

SINCE = (3, 8)
"""The first release whose tiered storage can be tested. 3.9 is the one that declared it ready
(KIP-405)."""
NODE = "remote-tier"
"""The node with the shared directory."""

_PROGRAM = Path(__file__).with_name("RemoteTier.java")
_CLASS = "ackproof.RemoteTier"
_COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
_METADATA = "rlmm.config.remote.log.metadata.topic."


def fetch(release: Release, tell: Callable[[str], None]) -> None:
    """Bring the tier's programs for a release to this machine. Return at once if they are there.

    ``tell`` gets a line for each step that takes long. Raises InfraError if they are not available.
    """
    jar = _jar(release)
    if not jar.is_dir():
        tell(f"fetching the remote tier of Apache Kafka {release.version}, once, to {jar.parent}")
        _fetch_jar(release, jar, tell)
    classes = _classes(release)
    if not classes.is_dir():
        _compile(release, classes)


def class_path(release: Release) -> str:
    """Return Java's class path of the tier, given a release whose tier was fetched.

    Raises InfraError if it was not fetched, or differs from what was.
    """
    jar, classes = _jar(release), _classes(release)
    if not jar.is_dir() or not classes.is_dir():
        raise InfraError(f"the remote tier of Apache Kafka {release.version} was never fetched")
    (name,) = jars.check(jar, _locked(release))
    return f"{jar / name}:{classes}/"


class RemoteTier:
    """An ``infra.api.capabilities.RemoteTier`` of deployed brokers.

    Args:
        node: The node whose directory all brokers see.
        program: The class path of the tier.
        copies: The replication factor of the topic with the tier's metadata.
    """

    def __init__(self, node: Node, program: str, copies: int) -> None:
        self._node = node
        self._program = program
        self._copies = copies
        self._numbers = count(1)
        self._tokens: dict[int, str] = {}

    def settings(self, listener: str) -> Mapping[str, str]:
        """Return the properties of brokers; ``listener`` is the name of theirs for each other."""
        return {
            TIER_CLASS: _CLASS,
            "remote.log.storage.manager.class.path": self._program,
            "rsm.config.dir": str(self._node.directory),
            "remote.log.metadata.manager.listener.name": listener,
            f"{_METADATA}replication.factor": str(self._copies),
            f"{_METADATA}num.partitions": "3",
        }

    def disturb(self, broker: int, problem: TierProblem, delay_ms: int) -> None:
        token = self._tokens[broker] = f"fault-{next(self._numbers)}"
        self._node.write(self._fault(broker), f"{token} {problem} {delay_ms}\n".encode())

    def restore(self, broker: int) -> None:
        self._node.write(self._fault(broker), b"")

    def use(self, broker: int) -> TierUse:
        token = self._tokens.get(broker)
        found = self._operations(broker)
        places = [place for place, words in enumerate(found) if words[1] == token]
        after = places[-1] + 1 if places else 0
        return TierUse(
            problem=self._problem(broker), disturbed=len(places), passed=len(found) - after
        )

    def _problem(self, broker: int) -> TierProblem | None:
        try:
            written = self._node.read(self._fault(broker)).decode().split()
        except FileNotFoundError:
            return None
        return TierProblem(written[1]) if written else None

    def _operations(self, broker: int) -> list[list[str]]:
        try:
            written = self._node.read(self._node.directory / "operations" / str(broker))
        except FileNotFoundError:
            return []
        # The last line may still be written.
        return [line.split() for line in written.decode().split("\n")[:-1]]

    def _fault(self, broker: int) -> PurePosixPath:
        return self._node.directory / "faults" / str(broker)


# --- its programs ---------------------------------------------------------------------------------


def _jar(release: Release) -> Path:
    return cached(f"kafka-{release.version}-tier")


def _lock(release: Release) -> Path:
    return cached(f"kafka-{release.version}-tier.lock.json")


def _classes(release: Release) -> Path:
    """Return the directory of the compiled program, which is never that of another text."""
    text = hashlib.sha256(_PROGRAM.read_bytes()).hexdigest()[:12]
    return cached(f"kafka-{release.version}-tier-{text}")


def _fetch_jar(release: Release, place: Path, tell: Callable[[str], None]) -> None:
    coordinates = f"org.apache.kafka:kafka-storage:{release.version}:test"
    partial = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        jars.copy([coordinates], partial, f"Apache Kafka {release.version}", tell)
        sums = {coordinates: sums_of(partial)[jars.file_name(coordinates)]}
        if not _lock(release).exists():
            keep(_lock(release), json.dumps(sums, indent=1) + "\n")
        jars.check(partial, _locked(release))
        put(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _locked(release: Release) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(_lock(release).read_text(encoding="utf-8"))
    return found


def _compile(release: Release, place: Path) -> None:
    own = release.directory or place_of(release)
    assert own is not None, "it was fetched before"
    partial = place.with_name(f"{place.name}.{os.getpid()}")
    class_path = os.pathsep.join(
        str(jar) for at in (own, _jar(release)) for jar in at.glob("*.jar")
    )
    command = [
        *(str(find_java()), "-m", _COMPILER, "-nowarn"),
        *("-cp", class_path, "-d", str(partial), str(_PROGRAM)),
    ]
    try:
        run_java(command, _PROGRAM.name)
        put(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
