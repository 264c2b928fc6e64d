"""Files that users write. They are read strictly, and an error reports everything that is wrong.

The error names the file and, for every problem, the line and column, the field and the reason. A
JSON Schema describes the allowed content. It is made from the pydantic model that reads the file
(:mod:`config.schemas`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from ackproof.config import schemas, yaml_document
from ackproof.config.sensitive import HIDDEN, is_sensitive, redacted
from ackproof.config.suggestions import closest
from ackproof.config.yaml_document import InvalidYaml, Position, Step, Steps

WORDED = "worded"
"""The type of pydantic's errors that have a text for users already."""


@dataclass(frozen=True, slots=True)
class PatternDescription:
    """An annotation of a text that matches a pattern.

    Attributes:
        pattern: A regular expression for the whole text, as the JSON Schema has it.
        words: A description of a right text for people: ``PROJECT/SERVICE``.
    """

    pattern: str
    words: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern.removeprefix("^").removesuffix("$"), text):
            raise PydanticCustomError(WORDED, "{words}", {"words": self.words})
        return text


VARIABLE = PatternDescription(
    r"^[A-Za-z_][A-Za-z0-9_]*$",
    "the name of an environment variable: letters, digits and _, no digit first",
)


# --- reading a file ---------------------------------------------------------------------------


_BYTES_MAX = 2**20
_SHOWN_MAX = 80
_KINDS = {
    "model_type": "Input should be a mapping of keys to values",
    "dict_type": "Input should be a mapping of keys to values",
    "mapping_type": "Input should be a mapping of keys to values",
    "tuple_type": "Input should be a list",
    "list_type": "Input should be a list",
    "int_type": "Input should be a whole number",
    "int_from_float": "Input should be a whole number",
    "float_type": "Input should be a number",
    "string_type": "Input should be text",
    "bool_type": "Input should be true or false",
    "string_too_short": "Input should not be empty",
    "too_short": "Input should be a list with at least one value",
}
"""pydantic's terms for JSON types, and those of YAML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a file.

    Attributes:
        field: The path of the field in the file, ``faults[1].hold``.
        reason: The reason.
        position: The place of the field, which :meth:`Document.refused` adds.
        key: Whether the key is wrong and not its value.
    """

    field: str
    reason: str
    position: Position | None = None
    key: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class DocumentRefused(ValueError):
    """A file that is refused, with every problem found in it."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{self._where(one)}: {one}" for one in self.problems))

    def _where(self, problem: Problem) -> str:
        return f"{self.path}:{problem.position}" if problem.position else str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file that was read.

    Attributes:
        content: The content as YAML types: mappings, lists, text, numbers, booleans, None.
        problems: The problems of the file itself, before its fields are looked at.
        positions, keys: The positions of values and of keys by their steps
            (:class:`config.yaml_document.ParsedFile`).
    """

    path: Path
    content: object
    problems: tuple[Problem, ...] = ()
    positions: Mapping[Steps, Position] = field(default_factory=dict, repr=False)
    keys: Mapping[Steps, Position] = field(default_factory=dict, repr=False)

    @property
    def as_json(self) -> str:
        """Return the content as JSON, for pydantic's strict mode."""
        return json.dumps(self.content)

    def refused(self, problems: Iterable[Problem] = ()) -> tuple[Problem, ...]:
        """Return ``problems`` and the document's own, each with its position, in the order of the
        file.

        If YAML read a value otherwise than its author meant (``no`` as false), only the document's
        own problem is returned for it, because others follow from it.
        """
        misread = {problem.position for problem in self.problems}
        placed = [self._placed(one) for one in problems]
        further = [one for one in placed if one.position not in misread]
        everything = dict.fromkeys([*self.problems, *further])
        return tuple(sorted(everything, key=lambda one: one.position or Position(0, 0)))

    def _placed(self, problem: Problem) -> Problem:
        """Return the problem with the position of the innermost existing part of its field."""
        steps, rest = self._found(problem.field)
        if not rest or rest.startswith("["):  # one value in place of a list, which campaigns allow
            problem, rest = replace(problem, field=as_field(steps)), ""
        own_line = self.keys.get(steps) if problem.key or rest else None
        return replace(problem, position=own_line or self.positions.get(steps))

    def _found(self, name: str) -> tuple[Steps, str]:
        """Return the steps of ``name`` that exist in the content, and the rest of the name."""
        node: Any = self.content
        steps: Steps = ()
        rest = f".{name}"
        while rest:
            # A single mapping may stand in place of a list.
            if isinstance(node, dict) and rest.startswith("[0]"):
                rest = rest.removeprefix("[0]")
                continue
            inner: Mapping[str, Step] = {}
            if isinstance(node, dict):
                inner = {f".{key}": key for key in node}
            elif isinstance(node, list):
                inner = {f"[{number}]": number for number in range(len(node))}
            fits = [text for text in inner if re.match(rf"{re.escape(text)}(?=[.\[]|$)", rest)]
            if not fits:
                break
            longest = max(fits, key=len)  # a key may have dots
            rest = rest.removeprefix(longest)
            steps = (*steps, inner[longest])
            node = node[inner[longest]]
        return steps, rest


def read(path: Path) -> Document:
    """Read the YAML file ``path``. Raises DocumentRefused if it is not valid YAML."""
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise DocumentRefused(path, [whole_file(f"cannot be read: {unreadable}")]) from None
    if len(raw) > _BYTES_MAX:
        raise DocumentRefused(path, [whole_file(f"is larger than {_BYTES_MAX:,} bytes")])
    try:
        found = yaml_document.read(text)
    except InvalidYaml as broken:
        reason = f"not YAML: {broken}"
        problem = Problem(field="file", reason=reason, position=broken.position)
        raise DocumentRefused(path, [problem]) from None
    if found.content is None:
        raise DocumentRefused(path, [whole_file("is empty")])
    slips = [
        Problem(field=as_field(slip.steps), reason=slip.reason, position=slip.position)
        for slip in found.slips
    ]
    return Document(
        path=path,
        content=found.content,
        problems=tuple(slips),
        positions=found.positions,
        keys=found.keys,
    )


def whole_file(reason: str) -> Problem:
    """Return a problem of the whole file."""
    return Problem(field="file", reason=reason)


def as_field(steps: Iterable[Step]) -> str:
    """Return the path of a field as problems show it."""
    named = (step for step in steps if not schemas.is_tag(step))
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in named)
    return "".join(parts).removeprefix(".") or "file"


def problems_of(invalid: ValidationError, schema: schemas.Schema) -> Iterator[Problem]:
    """Yield pydantic's problems, one for each error. ``schema`` is that of the whole file."""
    errors = invalid.errors(include_url=False)
    unknown = [error["loc"] for error in errors if error["type"] == "extra_forbidden"]
    for error in errors:
        if error["type"] == "too_short" and error["input"]:
            continue  # its wrong entries do not count; they have errors of their own
        if error["type"] == "missing" and _misspelt(error["loc"], unknown):
            continue  # it is there, but misspelt; that error is reported
        steps = tuple(step for step in error["loc"] if step != "[key]")
        unknown_key = error["type"] == "extra_forbidden"
        if unknown_key:
            hint = schemas.misplaced(schema, steps[:-1], str(steps[-1]))
            reason = f"unknown key; {hint}" if hint else "unknown key"
        else:
            reason = _reason(error)
        yield Problem(field=as_field(steps), reason=reason, key=unknown_key)


def _misspelt(missing: Steps, unknown: Iterable[Steps]) -> bool:
    """Return whether an unknown key beside the missing one resembles it."""
    beside = [str(steps[-1]) for steps in unknown if steps[:-1] == missing[:-1]]
    return any(closest(key, [str(missing[-1])]) for key in beside)


def _reason(error: ErrorDetails) -> str:
    kind = error["type"]
    if kind == "missing":
        return "is missing"
    reason = _KINDS.get(kind, error["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return reason
    if any(is_sensitive(str(step)) for step in error["loc"]):
        return f"{reason}, not {HIDDEN}"
    return f"{reason}, not {_shown(redacted(error['input']))}{_meant(error)}"


def _meant(error: ErrorDetails) -> str:
    if error["type"] not in ("literal_error", "enum") or not isinstance(error["input"], str):
        return ""
    known = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected")))
    close = closest(error["input"], known)
    return f"; did you mean {close}?" if close else ""


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value) if isinstance(value, str) else ""
    text = text or json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
