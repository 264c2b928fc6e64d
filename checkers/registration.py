"""The conditions that a plug-in's checker must meet."""

from collections.abc import Iterator, Mapping, Sequence

from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.history.schema import TABLES
from ackproof.plugins.registration import NAME

_NAME_LENGTH_MAX = 60
_CALLED = ("examine", "concerns", "not_promised")


def as_checker(found: object, name: str, guarantees: Sequence[str] = ()) -> PluginChecker:
    """Return a registered object as the checker called ``name``. ``guarantees``: the names of the
    built-in ones. Raises ValueError that says what is wrong with it."""
    if isinstance(found, type):
        raise ValueError(f"{found.__name__} is a class; register an instance of PluginChecker")
    if not isinstance(found, PluginChecker):
        raise ValueError(
            f"it is of the type {type(found).__name__}; register an instance of "
            "ackproof.checkers.interface.PluginChecker"
        )
    for problem in _problems(found, name, guarantees):
        raise ValueError(problem)
    return found


def _problems(checker: PluginChecker, name: str, guarantees: Sequence[str]) -> Iterator[str]:
    if not NAME.fullmatch(name) or len(name) > _NAME_LENGTH_MAX:
        yield (
            f"{name!r} is not a name of lower-case words joined by hyphens, of at most "
            f"{_NAME_LENGTH_MAX} characters"
        )
    if checker.name != name:
        yield f"it is registered as {name} and says that its name is {checker.name!r}"
    if checker.breaks in guarantees:
        yield f"its guarantee {checker.breaks} is a built-in one's; give it another name"
    for attribute in ("summary", "guarantee"):
        text = getattr(checker, attribute)
        if not isinstance(text, str) or len(text.splitlines()) != 1 or not text.strip():
            yield f"its {attribute} must be one line of text"
    if not isinstance(checker.extent, Extent):
        yield f"its extent must be one of {_members(Extent)}"
    if not isinstance(checker.promised, Promised):
        yield f"its promised must be one of {_members(Promised)}"
    uncallable = [one for one in _CALLED if not callable(getattr(checker, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a function"
    yield from _table_problems(checker.reads)


def _table_problems(reads: object) -> Iterator[str]:
    if not isinstance(reads, Mapping) or not reads:
        yield "its reads must name the columns that it reads, by table"
        return
    for table, columns in reads.items():
        if table not in TABLES:
            yield f"it reads the table {table!r}; there are {', '.join(TABLES)}"
            return
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            yield f"it must name columns of the table {table}, in a list"
            return
        unknown = [one for one in columns if one not in TABLES[table].names]
        if unknown:
            known = ", ".join(TABLES[table].names)
            yield f"the table {table} has no column {unknown[0]!r}; there are {known}"


def _members(kind: type[Extent] | type[Promised]) -> str:
    return ", ".join(f"{kind.__name__}.{one.name}" for one in kind)
