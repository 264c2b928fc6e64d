"""The reductions of a campaign: fewer faults, sooner and shorter ones, fewer cells, servers and
clients, and a lower rate. Each candidate is a valid campaign file. Invalid ones are not tried.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ackproof.config.documents import Document
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.values import FLAT_OUT, format_ms, holds_for, parse_ms
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.shrinking.search import Reduction
from ackproof.history.cell import Cell, as_text
from ackproof.history.messages import several

Content = dict[str, Any]

HOLD_MS_MIN = 500
IDLE_MS = 5_000
LEAD_MS = 3_000
RATE_MIN = 20.0
RATE_FIRST = 1_000.0
"""The rate that replaces flat-out, in records per second."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A campaign, with the text of its file."""

    text: str
    campaign: Campaign = field(compare=False)

    @classmethod
    def of(cls, campaign: Campaign) -> "Candidate":
        return cls(campaign.to_yaml(), campaign)

    @property
    def document(self) -> Content:
        document: Content = yaml.safe_load(self.text)
        return document

    def __str__(self) -> str:
        cluster = self.campaign.cluster.largest
        counts = {
            "fault": len(self.campaign.faults),
            "cell": self.campaign.cells.size,
            "broker": cluster.brokers,
        }
        numbers = [several(number, one) for one, number in counts.items()]
        return ", ".join([*numbers, _rate(self.campaign.workload)])


def _rate(workload: WorkloadSpec) -> str:
    return FLAT_OUT if workload.flat_out else f"{workload.rate:g} records/s"


def changed(candidate: Candidate, change: Callable[[Content], None]) -> Candidate | None:
    """Return the candidate with a change to its file, or None if the result is invalid or equal."""
    document = deepcopy(candidate.document)
    change(document)
    try:
        file = validation.judged(Document(path=Path("candidate"), content=document), meant=True)
    except validation.CampaignRefused:
        return None
    found = Candidate.of(file.campaign)
    return None if found == candidate else found


def _less(
    changes: Callable[[Content], Iterable[Callable[[Content], None]]],
) -> Callable[[Candidate], Iterator[Candidate]]:
    def less(candidate: Candidate) -> Iterator[Candidate]:
        for change in changes(candidate.document):
            found = changed(candidate, change)
            if found is not None:
                yield found

    return less


def _set(*path: str | int, value: object) -> Callable[[Content], None]:
    def change(document: Content) -> None:
        section: Any = document
        for key in path[:-1]:
            section = section[key]
        section[path[-1]] = value

    return change


# --- faults --------------------------------------------------------------------------------------


def _faults(candidate: Candidate) -> Sequence[object]:
    return list(candidate.document["faults"])


def _with_faults(candidate: Candidate, faults: Sequence[object]) -> Candidate | None:
    return changed(candidate, _set("faults", value=list(faults)))


def _sooner(document: Content) -> Iterator[Callable[[Content], None]]:
    """Yield changes without the time in which no fault is active: first between all faults, then
    only before the first."""
    faults = document["faults"]
    if faults:
        yield lambda changing: _close_gaps(changing["faults"], IDLE_MS)
        yield lambda changing: _close_gaps(changing["faults"], None)


def _close_gaps(faults: Sequence[Content], idle_ms: int | None) -> None:
    """Let the first fault begin at once, and no more than ``idle_ms`` pass between the end of all
    faults before and the next. The duration of a story is unknown."""
    earlier_ms = None
    over_ms: float = 0
    for fault in sorted(faults, key=lambda one: parse_ms(one["at"][0])):
        at_ms = parse_ms(fault["at"][0])
        if earlier_ms is None:
            earlier_ms = max(0, at_ms - LEAD_MS)
        elif idle_ms is not None and at_ms - over_ms > idle_ms:
            earlier_ms += int(at_ms - over_ms) - idle_ms
        held_ms = parse_ms(fault["hold"][1]) if "hold" in fault else float("inf")
        over_ms = max(over_ms, at_ms + held_ms)
        fault["at"] = [format_ms(at_ms - earlier_ms)] * 2


def _shorter(document: Content) -> Iterator[Callable[[Content], None]]:
    """Yield changes of durations to one half: of all faults, then of each."""
    halves = {
        number: max(HOLD_MS_MIN, round(parse_ms(fault["hold"][1]) // 2, -2))
        for number, fault in enumerate(document["faults"])
        if "hold" in fault and parse_ms(fault["hold"][1]) > HOLD_MS_MIN
    }

    def hold(numbers: Iterable[int]) -> Callable[[Content], None]:
        def change(changing: Content) -> None:
            for number in numbers:
                changing["faults"][number]["hold"] = [format_ms(halves[number])] * 2

        return change

    if len(halves) > 1:
        yield hold(halves)
    yield from (hold([number]) for number in halves)


# --- everything else -----------------------------------------------------------------------------


def _fewer_cells(document: Content) -> Iterator[Callable[[Content], None]]:
    """Yield, for each list of values, changes to each single value, then changes to all but one."""
    for path, values in _swept(document["cells"], ("cells",)):
        for value in values:
            yield _with_values(path, [value])
        for value in values if len(values) > 2 else ():
            yield _with_values(path, [other for other in values if other != value])


def _with_values(path: Sequence[str], values: Sequence[Any]) -> Callable[[Content], None]:
    """Return a change to these values of a setting of the cells, without the entries that are only
    about other values of it."""
    setting = ".".join(path[1:])

    def is_left(where: Mapping[str, Any]) -> bool:
        asked = {setting: where[setting]} if setting in where else {}
        return any(holds_for(asked, {setting: value}) for value in values)

    def change(changing: Content) -> None:
        _set(*path, value=values[0] if len(values) == 1 else list(values))(changing)
        cells = changing["cells"]
        cells["exclude"] = [where for where in cells["exclude"] if is_left(where)]
        for section, key in ((cells, "name"), (changing, "expect")):
            section[key] = [entry for entry in section[key] if is_left(entry["where"])]

    return change


def single_cell(document: Content, cells: Sequence[Cell], cell: Cell) -> Content:
    """Return a campaign with only one of its cells, without expectations. The cell keeps its topic,
    whatever changes later. Faults that aim at the topics of other cells aim at its topic
    instead."""
    found = deepcopy(document)
    name = cell.topic.removeprefix(found["cells"].get("prefix", ""))
    for path, values in _swept(found["cells"], ("cells",)):
        setting = ".".join(path[1:])
        chosen = [one for one in values if as_text(one) == as_text(cell.settings[setting])]
        _set(*path, value=chosen[0])(found)
    found["cells"].update({"name": [{"where": {}, "name": name}], "exclude": []})
    found["expect"] = []
    others = sorted((one.topic for one in cells if one.topic != cell.topic), key=len, reverse=True)
    if others:
        named = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, others))})(?![\w.-])")
        for fault in found["faults"]:
            for key in {"target", "topic"} & fault.keys():
                if isinstance(fault[key], str):
                    fault[key] = named.sub(cell.topic, fault[key])
    return found


_NO_VALUES = ("name", "exclude")
"""Lists in the section of the cells that are not values of a setting."""


def _swept(
    section: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Sequence[Any]]]:
    for name, value in section.items():
        if name in _NO_VALUES:
            continue
        if isinstance(value, Mapping):
            yield from _swept(value, (*path, name))
        elif isinstance(value, list) and len(value) > 1:
            yield (*path, name), value


def _fewer_servers(document: Content) -> Iterator[Callable[[Content], None]]:
    for kind in ("brokers", "zookeepers"):
        for number in range(1, document["cluster"][kind]):
            yield _set("cluster", kind, value=number)


def _fewer_clients(document: Content) -> Iterator[Callable[[Content], None]]:
    """Yield changes to one node for all clients, one producer for each cell, no reader, and without
    each group."""
    clients = document["workload"]
    yield _set("cluster", "clients", value=1)
    yield _set("workload", "producers", value=1)
    yield _without_readers
    for number in range(len(clients["groups"])):
        others = [group for other, group in enumerate(clients["groups"]) if other != number]
        yield _set("workload", "groups", value=others)


def _without_readers(document: Content) -> None:
    document["workload"].update({"readers": 0, "readers.where": {}})


def _lower_rate(document: Content) -> Iterator[Callable[[Content], None]]:
    rate = document["workload"]["rate"]
    half = RATE_FIRST if rate == FLAT_OUT else rate / 2
    if half >= RATE_MIN:
        yield _set("workload", "rate", value=half)


WAYS: Sequence[Reduction[Candidate]] = (
    Reduction(name="faults", parts=_faults, with_parts=_with_faults),
    Reduction(name="time between faults", less=_less(_sooner)),
    Reduction(name="holds", less=_less(_shorter)),
    Reduction(name="cells", less=_less(_fewer_cells)),
    Reduction(name="servers", less=_less(_fewer_servers)),
    Reduction(name="clients", less=_less(_fewer_clients)),
    Reduction(name="rate", less=_less(_lower_rate)),
)
