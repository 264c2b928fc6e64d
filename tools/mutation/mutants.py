"""The catalogue of broken brokers: ``catalogue/<name>.patch``, each a header and a unified diff.

The header says what a reader must know to judge whether the fault should be found::

    breaks: A flush advances the recovery point without syncing the files.
    component: storage
    guarantee: no-acked-record-lost
    origin: invented
    shows with: flush.messages=1; a power failure of all replicas
    simulator: yes

``guarantee`` is the guarantee (``checkers.guarantees.table.GUARANTEES``) that a campaign must
report as broken, or ``none`` with the reason why no campaign can. ``origin`` says where the fault
comes from: an issue or proposal of Kafka's, ``found in this broker`` with the place, or
``invented``. ``simulator`` says whether the simulator is expected to find it. A line ``scenario``
may come before it: the scenario of the simulator in which the fault shows, for faults that random
plans hardly ever reach. All its searches then have that scenario.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ackproof.checkers.guarantees.table import GUARANTEES
from tools.mutation.patches import Hunk, parse

CATALOGUE = Path(__file__).parent / "catalogue"

COMPONENTS = (
    "producers",
    "consumers",
    "groups",
    "replication",
    "storage",
    "controller",
    "administration",
    "coordination",
)
"""The part of the broker that is broken. ``coordination`` is what takes the controller's place
where leaders coordinate."""

FOUND_HERE = "found in this broker"
"""How the origin of a fault begins that this broker really had."""

WITHOUT_CONTROLLER = "leader coordination"
"""How ``shows with`` begins where the fault needs a cluster without a controller."""

_HEADINGS = ("breaks", "component", "guarantee", "origin", "shows with", "scenario", "simulator")
_OPTIONAL = "scenario"
_NONE = "none, "


class UnknownMutant(ValueError):
    """A name that is not one of a mutant or a component."""


@dataclass(frozen=True)
class Mutant:
    """One broken broker.

    Attributes:
        breaks: What is wrong, in one sentence.
        guarantee: The guarantee that a campaign must report as broken, or None.
        gap: Why there is no such guarantee; empty if there is one.
        needs: The settings and faults with which it shows.
        scenario: The scenario of the simulator in which it shows; empty for random plans.
        expected: Whether the simulator is expected to find it.
        text: The content of the patch file.
    """

    name: str
    breaks: str
    component: str
    guarantee: str | None
    gap: str
    origin: str
    needs: str
    scenario: str
    expected: bool
    text: str

    @property
    def was_real(self) -> bool:
        """Return whether this broker really had the fault once."""
        return self.origin.startswith(FOUND_HERE)

    @property
    def without_controller(self) -> bool:
        """Return whether only a cluster without a controller has the fault."""
        return self.needs.startswith(WITHOUT_CONTROLLER)

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        """Return the changes of the patch."""
        return parse(self.text)


def catalogue(directory: Path = CATALOGUE) -> Mapping[str, Mutant]:
    """Return all mutants by name, sorted by component and name.

    Raises:
        ValueError: a patch file is malformed; the text names the file.
    """
    found = [read(path) for path in sorted(directory.glob("*.patch"))]
    found.sort(key=lambda mutant: (COMPONENTS.index(mutant.component), mutant.name))
    return {mutant.name: mutant for mutant in found}


def read(path: Path) -> Mutant:
    """Return the mutant of a patch file. Raises ValueError if the file is malformed."""
    text = path.read_text(encoding="utf-8")
    header, _, _ = text.partition("\n\n")
    stated = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    try:
        mutant = _mutant(path.stem, stated, text)
        _ = mutant.hunks
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return mutant


def _mutant(name: str, stated: Mapping[str, str], text: str) -> Mutant:
    if (*stated,) not in (_HEADINGS, tuple(h for h in _HEADINGS if h != _OPTIONAL)):
        raise ValueError(f"the header has {', '.join(stated)}, expected {', '.join(_HEADINGS)}")
    _check("component", stated["component"], COMPONENTS)
    _check("simulator", stated["simulator"], ("yes", "no"))
    guarantee = stated["guarantee"]
    without = guarantee.startswith(_NONE)
    if not without:
        _check("guarantee", guarantee, tuple(GUARANTEES))
    return Mutant(
        name=name,
        breaks=stated["breaks"],
        component=stated["component"],
        guarantee=None if without else guarantee,
        gap=guarantee.removeprefix(_NONE) if without else "",
        origin=stated["origin"],
        needs=stated["shows with"],
        scenario=stated.get("scenario", ""),
        expected=stated["simulator"] == "yes",
        text=text,
    )


def _check(heading: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise ValueError(f"{heading}: {word!r} is not one of {', '.join(known)}")


def digest(mutants: Mapping[str, Mutant]) -> str:
    """Return a digest of the catalogue: of the names and texts of its patches."""
    texts = sorted(f"{mutant.name}\n{mutant.text}" for mutant in mutants.values())
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def drawn(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants in the order in which campaigns take them.

    It is random, and the same in each session: an interrupted session has examined a random sample.
    In the order of the catalogue it would have examined its first components alone.
    """
    return sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.name.encode()).digest())


def select(names: Sequence[str], mutants: Mapping[str, Mutant]) -> tuple[Mutant, ...]:
    """Return the mutants with these names or components, or all mutants if no name is given.

    Raises:
        UnknownMutant: a name is neither.
    """
    for name in names:
        if name not in mutants and name not in COMPONENTS:
            raise UnknownMutant(f"{name!r} is not a mutant or a component; see --list")
    chosen = [m for m in mutants.values() if {m.name, m.component} & set(names)]
    return tuple(chosen if names else mutants.values())
