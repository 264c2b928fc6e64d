"""A YAML file as plain data, with the place of every value.

The file is read once. The checked content, the used content and the positions therefore come from
the same nodes. A text that readers of YAML interpret differently is a problem and is not guessed:

- A plain word that YAML 1.1 and YAML 1.2 read differently, such as ``yes``, ``010``, ``1:30``,
  ``1_000`` or ``2024-01-31``.
- A key that occurs twice, a merge (``<<``) or a tag (``!!str``).

Keys are always text: ``on:`` is not ``True``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from ackproof.config.sensitive import HIDDEN, is_sensitive

Step = str | int
"""A step from a mapping to one of its values, or from a list to one of its items."""

Steps = tuple[Step, ...]

DEPTH_MAX = 40
_SHOWN_MAX = 100
NODES_MAX = 50_000
"""The greatest number of nodes. Uses count, because an alias may stand for a thousand nodes each
time."""

_SCALARS_1_2: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = (
    (re.compile(r"~|null|Null|NULL|"), lambda _: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (
        re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
        lambda text: float(text.replace(".", "")),
    ),
)
"""The core schema of YAML 1.2.2 (10.3.2)."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """A problem of the value at ``steps``."""

    steps: Steps
    position: Position
    reason: str


_BLOCK = "while scanning a block scalar"
"""The beginning of PyYAML's message about a text that `>` or `|` introduces."""


class InvalidYaml(ValueError):
    """A text that is not YAML. The message says what it is instead; ``position`` is its place if
    known."""

    def __init__(self, reason: str, position: Position | None = None) -> None:
        self.position = position
        super().__init__(reason)


@dataclass(slots=True)
class ParsedFile:
    """The result of reading a file.

    Attributes:
        content: Mappings, lists, text, numbers, booleans, None.
        positions: The place of each value, or of its key if the value begins on another line.
        keys: The place of the key of each value of a mapping.
        slips: The parts that readers of YAML interpret differently.
    """

    content: object = None
    positions: dict[Steps, Position] = field(default_factory=dict)
    keys: dict[Steps, Position] = field(default_factory=dict)
    slips: list[ValueProblem] = field(default_factory=list)
    nodes: int = 0


def read(text: str) -> ParsedFile:
    """Read ``text``. Raises NotYaml."""
    try:
        loader = _Composer(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as broken:
        said = ", ".join(part for part in (broken.context, broken.problem) if part)
        if broken.context == _BLOCK:
            said += "; a value that begins with > or | must stand in quotes"
        mark = broken.problem_mark or broken.context_mark
        raise InvalidYaml(said, _position(mark) if mark else None) from None
    except yaml.reader.ReaderError as broken:
        reason = f"the character {chr(broken.character)!r} must not stand in YAML"
        raise InvalidYaml(reason, _at(text, broken.position)) from None
    reading = ParsedFile(slips=loader.tags)
    if node is not None:
        reading.positions[()] = _position(node.start_mark)
        reading.content = _value(node, (), reading)
    return reading


def dump(data: object) -> str:
    """Return ``data`` as YAML, which :func:`read` reads as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def _position(mark: yaml.Mark) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _at(text: str, index: int) -> Position:
    before = text[:index]
    return Position(before.count("\n") + 1, index - before.rfind("\n"))


def _value(node: yaml.Node, steps: Steps, reading: ParsedFile) -> object:
    reading.nodes += 1
    if reading.nodes > NODES_MAX or len(steps) > DEPTH_MAX:  # an alias may even contain itself
        raise InvalidYaml("aliases make it unreasonably large", _position(node.start_mark))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, steps, reading)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            reading.positions[(*steps, number)] = _position(item.start_mark)
        return [_value(item, (*steps, n), reading) for n, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    old, new = _by_yaml_1_1(node), _by_yaml_1_2(node)
    tagged = any(slip.position == reading.positions[steps] for slip in reading.slips)
    if repr(old) != repr(new) and not tagged:
        readings = f"means {_described(old)} in YAML 1.1, but {_described(new)} in YAML 1.2"
        reason = f"{_short(node.value)} {_short(readings)}: write the one that is meant"
        if any(is_sensitive(str(step)) for step in steps):
            reason = f"{HIDDEN} is not the same in YAML 1.1 and YAML 1.2: write it in quotes"
        reading.slips.append(ValueProblem(steps, reading.positions[steps], reason))
    return new


def _mapping(node: yaml.MappingNode, steps: Steps, reading: ParsedFile) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in node.value:
        position = _position(key.start_mark)
        if (reason := _key_problem(key, steps, reading)) is not None:
            inner = (*steps, key.value) if isinstance(key, yaml.ScalarNode) else steps
            reading.slips.append(ValueProblem(inner, position, reason))
            continue
        inside = (*steps, key.value)
        reading.keys[inside] = position
        same_line = value.start_mark.line == key.start_mark.line
        reading.positions[inside] = _position(value.start_mark) if same_line else position
        found[key.value] = _value(value, inside, reading)
    return found


def _key_problem(key: yaml.Node, steps: Steps, reading: ParsedFile) -> str | None:
    if not isinstance(key, yaml.ScalarNode):
        return "a key is a word, not a mapping or a list"
    if key.value == "<<" and key.style is None:
        return "YAML 1.2 has no merge (<<): write the values out"
    if (first := reading.keys.get((*steps, key.value))) is not None:
        return f"is given twice; the first is in line {first.line}"
    return None


def _by_yaml_1_1(node: yaml.ScalarNode) -> object:
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, yaml.YAMLError):  # 2024-02-31, or a number of 5,000 digits
        return NotImplemented


def _by_yaml_1_2(node: yaml.ScalarNode) -> object:
    text: str = node.value
    if node.style is not None:
        return text
    try:
        for pattern, meant in _SCALARS_1_2:
            if pattern.fullmatch(text):
                return meant(text)
    except ValueError:  # 5,000 digits, as above
        pass
    return text


def _described(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return repr(value) if isinstance(value, str) else "something else"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


class _Composer(yaml.SafeLoader):
    """A composer of nodes that also records tags. The nodes do not show whether a tag was
    explicit."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tags: list[ValueProblem] = []
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if self._depth > DEPTH_MAX:
            raise yaml.composer.ComposerError(None, None, "nested too deeply", event.start_mark)
        if getattr(event, "tag", None) not in (None, "!"):
            reason = f"tags are not read: leave {event.tag} out"
            self.tags.append(ValueProblem((), _position(event.start_mark), reason))
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes text that a reader of YAML 1.2 would not read as text. SafeDumper only
    does so for YAML 1.1 and would write the text ``1e3`` without quotes."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    plain = any(pattern.fullmatch(text) for pattern, _ in _SCALARS_1_2)
    style = "'" if plain else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)
