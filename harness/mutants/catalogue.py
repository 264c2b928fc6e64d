"""The catalogue of mutants of Apache Kafka: ``kafka/<name>.btm``, each a header and rules.

The header says what a reader must know to judge whether the fault should be found::

    # breaks: Every follower that fetches joins the ISR, however far it is behind.
    # kind: planted
    # guarantee: no-acked-record-lost
    # origin: invented
    # shows with: acks=all; a leader that fails while a follower catches up

``kind`` is a :class:`MutantKind`. ``guarantee`` is the guarantee that a campaign must report as
broken (:data:`checkers.guarantees.table.GUARANTEES`). ``origin`` is an issue or proposal of
Kafka's, or ``invented``. A line ``campaign`` names the campaign beside ``short.yaml`` that can
show the mutant, if that one cannot.

The rules follow, in Byteman's language. Their conditions are met only where the changed code
behaves differently, so that a rule that was carried out shows that the mutant took effect.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.infra.systems.kafka.jars import fetch_jar
from ackproof.infra.systems.kafka.programs import AGENT_DIRECTORY, AGENT_OPTIONS

CATALOGUE = Path(__file__).parent / "kafka"

_BYTEMAN = "org.jboss.byteman:byteman:4.0.24"
_SHA256 = "d3a5299e42ce0775243818e739ccadfdb24922d11656ca9037f3673055369350"
_RULES = "rules.btm"

_CAMPAIGNS = Path(__file__).parent
_DEFAULT_CAMPAIGN = "short"
_HEADINGS = ("breaks", "kind", "guarantee", "origin", "shows with")
_CAMPAIGN = "campaign"
_HEADING = re.compile(r"# ([a-z ]+): (.+)")
_ACTION = re.compile(r"^DO (.+)$", re.MULTILINE)
_RULE = re.compile(r"^RULE (.+)$", re.MULTILINE)
_PARTS = ("RULE", "CLASS", "METHOD", "IF", "DO", "ENDRULE")


class MutantKind(StrEnum):
    """The kind of a mutant."""

    FIX_TAKEN_BACK = "fix taken back"
    """A fault that Kafka had, and mended."""
    PLANTED = "planted"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMutant:
    """One broken Apache Kafka.

    Attributes:
        breaks: What is wrong, in one sentence.
        guarantee: The guarantee that a campaign must report as broken.
        needs: The settings and faults with which it shows.
        campaign: The file of the campaign that can show it.
        rules: The rules of Byteman.
    """

    name: str
    breaks: str
    kind: MutantKind
    guarantee: str
    origin: str
    needs: str
    campaign: str
    rules: str

    @property
    def announcement(self) -> str:
        """Return the line that a server logs when the mutant takes effect for the first time."""
        return f"ackproof: the mutant {self.name} took effect"

    @property
    def script(self) -> str:
        """Return the rules with the announcement as their first action."""
        return _ACTION.sub(lambda rule: f"DO {self._first}; {rule[1]}", self._named)

    @property
    def probe(self) -> str:
        """Return the rules with the announcement as their only action: Kafka behaves as ever, and a
        server logs when it reaches a place where the mutant would take effect."""
        return _ACTION.sub(lambda _: f"DO {self._first}", self._named)

    @property
    def _named(self) -> str:
        """Return the rules with names that are unique in the catalogue, which Byteman requires."""
        return _RULE.sub(lambda rule: f"RULE {self.name}, {rule[1]}", self.rules)

    @property
    def _first(self) -> str:
        """Return the expression that logs the announcement once for each start of a server."""
        # Byteman has no conditional statement, so nothing is appended after the first time.
        return f'System.out.append(flag("{self.name}") ? "{self.announcement}\\n" : "")'


def write_agent(rules: str, byteman: Path, directory: Path) -> None:
    """Write the JVM agent that changes a server by these rules (``kafka:VERSION+agent:DIRECTORY``).
    ``byteman`` is Byteman's jar. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(byteman, directory / byteman.name)
    (directory / _RULES).write_text(rules, encoding="utf-8")
    options = f"script:{AGENT_DIRECTORY}/{_RULES}\n"
    (directory / AGENT_OPTIONS).write_text(options, encoding="utf-8")


def fetch_byteman(tell: Callable[[str], None]) -> Path:
    """Return Byteman's jar, which is fetched unless it is there. Raises InfraError."""
    return fetch_jar(_BYTEMAN, _SHA256, tell)


def catalogue(directory: Path = CATALOGUE) -> Mapping[str, KafkaMutant]:
    """Return all mutants by name, fixes taken back first. Raises ValueError for a malformed
    file."""
    found = [read(path) for path in sorted(directory.glob("*.btm"))]
    found.sort(key=lambda one: list(MutantKind).index(one.kind))
    return {one.name: one for one in found}


def read(path: Path) -> KafkaMutant:
    """Return the mutant of a file. Raises ValueError if the file is malformed; the text names
    it."""
    header, _, rules = path.read_text(encoding="utf-8").partition("\n\n")
    headings = map(_HEADING.fullmatch, header.splitlines())
    stated = {found[1]: found[2] for found in headings if found is not None}
    try:
        _check(stated, rules)
        return KafkaMutant(
            name=path.stem,
            breaks=stated["breaks"],
            kind=MutantKind(stated["kind"]),
            guarantee=stated["guarantee"],
            origin=stated["origin"],
            needs=stated["shows with"],
            campaign=str(_CAMPAIGNS / f"{stated.get(_CAMPAIGN, _DEFAULT_CAMPAIGN)}.yaml"),
            rules=rules,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _check(stated: Mapping[str, str], rules: str) -> None:
    if tuple(one for one in stated if one != _CAMPAIGN) != _HEADINGS:
        raise ValueError(f"the header has {', '.join(stated)}, expected {', '.join(_HEADINGS)}")
    if stated["guarantee"] not in GUARANTEES:
        raise ValueError(
            f"guarantee: {stated['guarantee']!r} is not one of {', '.join(GUARANTEES)}"
        )
    counts = {part: len(re.findall(rf"^{part}\b", rules, re.MULTILINE)) for part in _PARTS}
    if set(counts.values()) in ({0}, set()) or len(set(counts.values())) != 1:
        raise ValueError(
            f"each rule must have one line that begins with each of {', '.join(_PARTS)}: {counts}"
        )
