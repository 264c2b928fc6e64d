"""The Python source of a module of ``broker/wire/messages``: a request and its response, or data in
records.

Consecutive fields of fixed size are read with one ``struct.Struct`` for each distinct sequence in
some versions. Each other field has a line of its own, below ``if version >= N`` if not every
version has it.
"""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from protocol.schema import FieldOf, Message, Struct

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""The ``struct`` format of each type of fixed size."""

VALUES: Final = {"string": "string", "bytes": "blob", "records": "records"}
ARRAYS: Final = {"int32": "int32s", "string": "strings"}
"""The functions that read and write values without a fixed size, and arrays of anything but
structs."""

A: Final = {
    "request": "A request",
    "response": "A response",
    "data": "A part that messages carry as bytes",
}

NAMES: Final = str.maketrans({"?": "o", "H": "w", "I": "j"})
WIDTH: Final = 94
PYPROJECT: Final = Path(__file__).resolve().parent.parent / "pyproject.toml"


def api(request: Message, response: Message) -> str:
    """Return the text of the module for an API, not formatted."""
    name = request.structs[-1].name.removesuffix("Request")
    first, last = min(request.versions), max(request.versions)
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return module(f"{name} (api {request.api_key}), {versions}.", (request, response))


def module(title: str, messages: Sequence[Message]) -> str:
    """Return the text of the module with these messages, not formatted."""
    body = [
        line
        for message in messages
        for struct in message.structs
        for line in ("", "", *_class(struct, message, messages[-1].structs[-1].name))
    ]
    head = [
        f'"""{title}',
        "",
        "Made by ``python -m protocol``; do not edit.",
        '"""',
        "",
        *_imports("\n".join(body)),
        "",
        *_forms("\n".join(body)),
    ]
    return "\n".join([*head, *body, ""])


def formatted(modules: Mapping[str, str]) -> Mapping[str, str]:
    """Return the texts of modules by their names, formatted by ``ruff format``."""
    ruff = Path(sys.executable).with_name("ruff")
    with TemporaryDirectory() as scratch:
        paths = {name: Path(scratch, f"{name}.py") for name in modules}
        for name, path in paths.items():
            path.write_text(modules[name], encoding="utf-8")
        subprocess.run(
            [ruff, "format", "--quiet", "--no-cache", "--config", PYPROJECT, scratch], check=True
        )
        return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def _imports(body: str) -> Iterator[str]:
    def used(*names: str) -> list[str]:
        return sorted((n for n in names if n in _words(body)), key=lambda n: (n.islower(), n))

    if "_FORM_" in body:
        yield "import struct"
    if "uuid.UUID" in body:
        yield "import uuid"
    yield from (f"from typing import {', '.join(used('ClassVar', 'Self'))}", "")
    if used("ErrorCode"):
        yield from ("from kio.schema.errors import ErrorCode", "")
    ours = ("BrokerId", "ControllerEpoch", "LeaderEpoch", "Offset", "ProducerId", "ZkVersion")
    for origin, names in (
        ("ackproof.broker.types", used(*ours)),
        ("ackproof.broker.wire.framing", used("BytesLike")),
        ("ackproof.broker.wire.message", used("NEVER", "message")),
        ("ackproof.broker.wire.reader", used("NIL", "Reader", "error", "uuid_of")),
        ("ackproof.broker.wire.writer", used("Writer", "uuid_bytes")),
    ):
        if names:
            yield f"from {origin} import {', '.join(names)}"


def _words(body: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in body).split())


def _forms(body: str) -> Iterator[str]:
    for word in sorted(w for w in _words(body) if w.startswith("_FORM_")):
        code = word.removeprefix("_FORM_").lower()
        for name, letter in (("o", "?"), ("w", "H"), ("j", "I"), ("u", "16s")):
            code = code.replace(name, letter)
        yield f'{word} = struct.Struct(">{code}")'


def _form(fields: Sequence[FieldOf]) -> str:
    """Return the name of the ``struct.Struct`` for these fields, which :func:`_forms` defines."""
    codes = "".join("u" if f.kafka_type == "uuid" else FIXED[f.kafka_type] for f in fields)
    return "_FORM_" + codes.translate(NAMES).upper()


# --- a class ----------------------------------------------------------------------------------


def _class(struct: Struct, message: Message, response: str) -> Iterator[str]:
    is_message = struct is message.structs[-1]
    yield "@message"
    yield f"class {struct.name}:"
    yield from _text(
        struct.description
        or (f"{A[message.kind]}." if is_message else f"Part of {A[message.kind].lower()}.")
    )
    yield ""
    if is_message and message.kind != "data":
        yield from _constants(message)
    for field in struct.fields:
        yield f"    {field.name}: {_annotation(field)}{_default(field)}"
        yield from _text(field.description)
    yield from _reading(struct, message)
    yield from _writing(struct, message)
    if is_message and message.kind == "request":
        yield from (
            "",
            "    @staticmethod",
            f'    def response() -> type["{response}"]:',
            '        """The class of what is answered."""',
            f"        return {response}",
        )


def _constants(message: Message) -> Iterator[str]:
    first, last = min(message.versions), max(message.versions)
    if message.kind == "request":
        yield f"    API_KEY: ClassVar[int] = {message.api_key}"
        between = f"{first}, {last + 1}" if first else f"{last + 1}"
        yield f"    VERSIONS: ClassVar[range] = range({between})"
    yield f"    HEADER_FLEXIBLE_SINCE: ClassVar[int] = {_since(message.header_flexible)}"
    yield f"    FLEXIBLE_SINCE: ClassVar[int] = {_since(message.flexible)}"
    yield ""
    if message.kind == "request":
        yield f"    version: int{f' = {first}' if first == last else ''}"


def _since(versions: frozenset[int]) -> str:
    return str(min(versions)) if versions else "NEVER"


def _text(text: str) -> Iterator[str]:
    if text:
        lines = textwrap.wrap(" ".join(text.split()), WIDTH - 3)
        yield from textwrap.indent('"""' + "\n".join(lines) + '"""', "    ").split("\n")


def _annotation(field: FieldOf) -> str:
    if field.kafka_type == "uuid":
        return "uuid.UUID | None"
    element = (
        field.struct
        or field.nominal
        or {
            "bool": "bool",
            "string": "str",
            "bytes": "bytes",
            "records": "BytesLike",
            "error_code": "ErrorCode",
        }.get(field.kafka_type, "int")
    )
    value = f"tuple[{element}, ...]" if field.is_array else element
    return f"{value} | None" if field.nullable else value


def _default(field: FieldOf) -> str:
    if field.default is MISSING:
        return ""
    value = _literal(field)
    if field.nominal and not field.is_array:
        return f" = {field.nominal}({value})"
    return " = ErrorCode.none" if field.kafka_type == "error_code" else f" = {value}"


def _literal(field: FieldOf) -> str:
    """Return the default as a literal of the type read from the wire."""
    if field.default is MISSING:
        raise ValueError(f"{field.name} has no default")
    if field.kafka_type == "uuid":
        return "None"
    if isinstance(field.default, bool) or not isinstance(field.default, int):
        return repr(field.default)
    return repr(int(field.default))


# --- versions ---------------------------------------------------------------------------------


def _condition(having: frozenset[int], among: frozenset[int]) -> str:
    """Return a condition that holds for the versions that have the field, and for no other one
    among these. Return "" if all have it."""
    first, last = min(having), max(having)
    if having != {v for v in among if first <= v <= last}:
        raise ValueError(f"versions {sorted(having)} have a hole")
    below = f"version >= {first}" if first > min(among) else ""
    above = f"version <= {last}" if last < max(among) else ""
    return f"{first} <= version <= {last}" if below and above else below or above


def _below(condition: str, lines: Iterable[str], otherwise: Iterable[str] = ()) -> Iterator[str]:
    if not condition:
        yield from lines
        return
    yield f"if {condition}:"
    yield from (f"    {line}" for line in lines)
    others = [f"    {line}" for line in otherwise]
    if others:
        yield from ("else:", *others)


def _is_fixed(field: FieldOf) -> bool:
    return field.kafka_type in FIXED and not field.is_array


def _parts(
    struct: Struct,
    run: Callable[[Sequence[FieldOf]], Iterable[str]],
    nothing: Callable[[FieldOf], Iterable[str]],
    one: Callable[[FieldOf], Iterable[str]],
) -> Iterator[str]:
    """Yield lines for all fields: ``run`` makes those for consecutive fields of fixed size,
    ``nothing`` those for a field that a version lacks, and ``one`` those for any other field."""
    for fixed, group in groupby(struct.fields, key=_is_fixed):
        if fixed:
            yield from _run(tuple(group), struct.versions, run, nothing)
            continue
        for having, fields in groupby(group, key=lambda field: field.versions):
            those = tuple(fields)
            yield from _below(
                _condition(having, struct.versions),
                (line for field in those for line in one(field)),
                (line for field in those for line in nothing(field)),
            )


def _run(
    fields: Sequence[FieldOf],
    versions: frozenset[int],
    run: Callable[[Sequence[FieldOf]], Iterable[str]],
    nothing: Callable[[FieldOf], Iterable[str]],
) -> Iterator[str]:
    def present(version: int) -> tuple[FieldOf, ...]:
        return tuple(field for field in fields if version in field.versions)

    sets = [(list(v), there) for there, v in groupby(sorted(versions), key=present)]
    if len(sets) == 1:
        yield from run(fields)
        return
    word = "if"
    for those, there in reversed(sets):
        lines = [
            *(run(there) if there else ()),
            *(line for field in fields if field not in there for line in nothing(field)),
        ]
        last = those[0] == min(versions)
        if last and not lines:
            return
        yield "else:" if last else f"{word} version >= {those[0]}:"
        yield from (f"    {line}" for line in lines or ("pass",))
        word = "elif"


# --- reading ----------------------------------------------------------------------------------


def _reading(struct: Struct, message: Message) -> Iterator[str]:
    yield from (
        "",
        "    @classmethod",
        "    def read(cls, reader: Reader, version: int) -> Self:",
        '        """Read the fields of that version. Raise what '
        ':mod:`broker.wire.reader` raises."""',
    )
    lines = [
        *_parts(struct, _read_run, _read_nothing, _read_one),
        *_tags(struct, message, "reader.skip_tags()"),
    ]
    yield from (f"        {line}" for line in lines)
    yield "        return cls("
    if struct is message.structs[-1] and (message.kind == "request"):
        yield "            version=version,"
    yield from (f"            {field.name}={_made(field)}," for field in struct.fields)
    yield "        )"


def _tags(struct: Struct, message: Message, line: str) -> Iterator[str]:
    flexible = message.flexible & struct.versions
    if flexible:
        yield from _below(_condition(flexible, struct.versions), (line,))


def _read_run(fields: Sequence[FieldOf]) -> Iterator[str]:
    names = ", ".join(field.name for field in fields)
    yield f"({names}{',' if len(fields) == 1 else ''}) = reader.unpack({_form(fields)})"


def _read_nothing(field: FieldOf) -> Iterator[str]:
    value = "NIL" if field.kafka_type == "uuid" else _literal(field)
    is_nominal = field.nominal and not field.is_array
    yield f"{field.name} = {f'{field.nominal}({value})' if is_nominal else value}"


def _made(field: FieldOf) -> str:
    made = {"error_code": "error({})", "uuid": "uuid_of({})"}.get(field.kafka_type, "{}")
    return made.format(field.name)


def _read_one(field: FieldOf) -> Iterator[str]:
    name = field.name
    if not field.is_array:
        yield f"{name} = {_by_nullability(field, VALUES[field.kafka_type])}"
    elif field.struct:
        yield f"{name} = {_by_nullability(field, 'structs', f'{field.struct}.read, version')}"
    else:
        yield f"{name} = {_by_nullability(field, ARRAYS[field.kafka_type])}"


def _by_nullability(field: FieldOf, kind: str, given: str = "") -> str:
    if not field.nullable:
        return f"reader.{kind}({given})"
    condition = _condition(field.nullable, field.versions)
    never_null = f" if {condition} else reader.{kind}({given})" if condition else ""
    return f"reader.nullable_{kind}({given}){never_null}"


# --- writing ----------------------------------------------------------------------------------


def _writing(struct: Struct, message: Message) -> Iterator[str]:
    yield from (
        "",
        "    def write(self, writer: Writer, version: int) -> None:",
        '        """Append all fields of that version."""',
    )
    lines = [
        *_parts(struct, _write_run, lambda _: (), _write_one),
        *_tags(struct, message, "writer.no_tags()"),
    ]
    yield from (f"        {line}" for line in lines)


def _write_run(fields: Sequence[FieldOf]) -> Iterator[str]:
    values = ", ".join(
        f"uuid_bytes(self.{f.name})" if f.kafka_type == "uuid" else f"self.{f.name}" for f in fields
    )
    yield f"writer.put({_form(fields)}.pack({values}))"


def _write_one(field: FieldOf) -> Iterator[str]:
    name = f"self.{field.name}"
    if field.struct:
        yield f"writer.structs({name}, version)"
    elif field.is_array:
        yield f"writer.{ARRAYS[field.kafka_type]}({name})"
    else:
        yield f"writer.{VALUES[field.kafka_type].replace('records', 'blob')}({name})"
