"""Names of cells for readers: the settings that differ, in words, such as ``acks=all, min ISR 2,
idempotent``.

The stable name of a cell (``acks-all.minisr-2.idempotence-true``) stays its id in files.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ackproof.history.cell import SETTINGS, Cell, Value, as_text

CellKey = tuple[int, str]
"""The run and the stable name of a cell."""

BASIC = ("acks", "min.insync.replicas")
"""The settings that are part of every name."""

USUAL_SHARE = 2 / 3
"""A value without a default that such a share of the cells has is usual, and no part of a name."""


def in_words(cells: Mapping[CellKey, Mapping[str, Value]]) -> dict[CellKey, str]:
    """Return a unique name for each cell. ``cells`` are the settings of the cells, which include
    the swept settings of their clusters.

    A name has ``acks``, ``min.insync.replicas`` and each further setting that differs between the
    cells and is not at its default or usual value. Cells with equal settings are told apart by
    their run, or else by their stable name.
    """
    if not cells:
        return {}
    names = dict.fromkeys((*BASIC, *(name for of in cells.values() for name in of)))
    left_out = {name: _left_out(name, list(cells.values())) for name in names}
    plain = {
        key: ", ".join(
            _phrase(name, as_text(of[name]))
            for name in names
            if name in of and (name in BASIC or not left_out[name](of))
        )
        or key[1]
        for key, of in cells.items()
    }
    several = len({run for run, _ in cells}) > 1
    with_run = {key: f"run {key[0]}: {name}" if several else name for key, name in plain.items()}
    stable = {key: f"{name} ({key[1]})" for key, name in with_run.items()}
    return next((names for names in (plain, with_run) if _unique(names)), stable)


def _left_out(
    name: str, cells: Sequence[Mapping[str, Value]]
) -> Callable[[Mapping[str, Value]], bool]:
    """Return a function that says whether the name of a cell leaves out its value of a setting."""
    ((value, times),) = Counter(as_text(of.get(name, "")) for of in cells).most_common(1)
    default = SETTINGS[name].default if name in SETTINGS else None
    if times == len(cells):
        return lambda _: True
    if default is not None:
        return lambda of: of[name] == default(Cell(name="", topic="", settings=of))
    return lambda of: times >= USUAL_SHARE * len(cells) and as_text(of[name]) == value


def _unique(names: Mapping[CellKey, str]) -> bool:
    return len(set(names.values())) == len(names)


def _phrase(name: str, value: str) -> str:
    """Return a setting in words."""
    if name in _PHRASES:
        return _PHRASES[name](value)
    return f"{name.removeprefix('topic.')}={value}"


def _several(what: str) -> Callable[[str], str]:
    return lambda value: f"{value} {what}{'' if value == '1' else 's'}"


def _flag(on: str) -> Callable[[str], str]:
    return lambda value: {"true": on, "false": f"not {on}"}.get(value, f"{on}={value}")


_PHRASES: Mapping[str, Callable[[str], str]] = {
    "enable.idempotence": _flag("idempotent"),
    "unclean.leader.election.enable": _flag("unclean election"),
    "min.insync.replicas": lambda value: f"min ISR {value}",
    "replication.factor": _several("replica"),
    "partitions": _several("partition"),
    "max.in.flight.requests.per.connection": lambda value: f"{value} in flight",
    "producer.type": lambda value: f"{value} producer",
    "isolation.level": lambda value: value.replace("_", " "),
    "client": str,
    "cluster": str,
    "system": str,
    "brokers": _several("broker"),
}
