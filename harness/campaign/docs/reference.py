"""The reference of the campaign file, ``docs/campaigns.md``, generated from its JSON Schema, the
catalogue of faults.

The text outside the tables is in ``reference.md`` beside this module.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.config.schemas import Schema
from ackproof.harness.campaign.docs.schema import schema
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import headline
from ackproof.nemesis.targets import expressions

_WORDS = {"string": "text", "boolean": "boolean", "object": "mapping"}
_LISTED_MAX = 10
"""The most values that a type lists. For more, the meaning of the key says where to find them."""
_ON_ANOTHER_PAGE = "cluster.external."
"""The path of the sections that ``docs/your-cluster.md`` describes."""


def page() -> str:
    """Return the page in Markdown."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    parts = {
        "{keys}": "\n".join(_keys()),
        "{faults}": "\n".join(_table(("fault", "effect", "target"), _faults())),
        "{stories}": "\n".join(_table(("story", "effect", "replicas", "source"), _stories())),
        "{targets}": "\n".join(_table(("form", "meaning"), _targets())),
    }
    for place, part in parts.items():
        text = text.replace(place, part)
    return text


def _keys() -> Iterator[str]:
    """Yield a table for the file, and one for each section, at the first key that holds it."""
    whole = schema()
    found = _paths(whole)
    paths = {name: path for name, path in found.items() if not path.startswith(_ON_ANOTHER_PAGE)}
    yield from _rows(whole, paths)
    for name, path in paths.items():
        yield from ("", f"### `{path}`", "", whole["$defs"][name]["description"], "")
        yield from _rows(whole["$defs"][name], paths)


def _paths(whole: Schema) -> dict[str, str]:
    """Return the path of each section, by the name of its definition."""
    found: dict[str, str] = {}
    waiting = [("", whole)]
    while waiting:
        path, section = waiting.pop(0)
        for key, node in section["properties"].items():
            for name in _referred(node):
                inner = f"{path}.{key}{'.NAME' if _of_names(node) else ''}".removeprefix(".")
                definition = whole["$defs"][name]
                if name not in found and "properties" in definition:
                    # If either of two sections is allowed, each is named after a key that it
                    # requires.
                    several = len(set(_referred(node))) > 1
                    found[name] = f"{inner}: {definition['required'][0]}" if several else inner
                    waiting.append((inner, whole["$defs"][name]))
    return found


def _referred(node: Schema) -> Iterator[str]:
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2]
    either = (*node.get("anyOf", ()), *node.get("oneOf", ()))
    for inner in (*either, *([node["items"]] if "items" in node else []), *_of_names(node)):
        yield from _referred(inner)


def _of_names(node: Schema) -> Sequence[Schema]:
    """Return the schemas of the values of a mapping whose keys are names."""
    values = (node.get("additionalProperties"), *node.get("patternProperties", {}).values())
    return [one for one in values if isinstance(one, dict) and "$ref" in one]


def _rows(section: Schema, paths: Mapping[str, str]) -> Iterator[str]:
    required = section.get("required", ())
    keys = sorted(section["properties"].items(), key=lambda item: item[0] not in required)
    rows = [
        (f"`{key}`", _kind(node, paths), _default(key, node, required), node["description"])
        for key, node in keys
    ]
    yield from _table(("key", "type", "default", "meaning"), _merged(rows))


def _default(key: str, node: Schema, required: Sequence[str]) -> str:
    if key in required:
        return "required"
    default = node.get("default")
    return "" if default is None or default in ({}, [], "") else f"`{_flow(default)}`"


def _flow(value: object) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _kind(node: Schema, paths: Mapping[str, str]) -> str:
    """Return the type of a value in words; ``paths`` are those of :func:`_paths`."""
    if "enum" in node:
        if len(node["enum"]) > _LISTED_MAX:
            return "name"
        return ", ".join(f"`{one}`" for one in dict.fromkeys(map(str, node["enum"])))
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return (
            f"[mapping](#{_anchor(paths[name])})"
            if name in paths
            else _kind(schema()["$defs"][name], {})
        )
    if "const" in node:
        return f"`{node['const']}`"
    if "anyOf" in node or "oneOf" in node:
        return _either(node.get("anyOf") or node["oneOf"], paths)
    if "title" in node:
        return f"`{node['title']}`" if node["type"] == "array" else f"[{node['title']}](#values)"
    if of_names := _of_names(node):
        return f"mapping of names to {_kind(of_names[0], paths)}"
    if node["type"] == "array":
        return f"list of {_kind(node['items'], paths)}"
    if node["type"] in ("integer", "number"):
        return number(node)
    return _WORDS[node["type"]]


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _either(nodes: Sequence[Schema], paths: Mapping[str, str]) -> str:
    match [one for one in nodes if one.get("type") != "null"]:
        case [one, {"type": "array", "items": item, "minItems": 1}] if one == item:
            return f"{_kind(one, paths)}, list"
        case some:
            return ", ".join(dict.fromkeys(_kind(one, paths) for one in some))


def number(node: Mapping[str, Any]) -> str:
    """Return the range of a number. Integers have no other mark if they have a range."""
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        bounds = f"{low:,}–{high:,}" if low >= 0 else f"{low:,} to {high:,}"  # noqa: RUF001
    else:
        above = node.get("exclusiveMinimum")
        ends = ((low, "≥"), (above, ">"), (high, "≤"))
        bounds = " ".join(f"{mark}{value:,}" for value, mark in ends if value is not None)
    if node["type"] == "integer":
        return bounds or "integer"
    return f"number {bounds}".strip()


def _faults() -> Iterator[tuple[str, ...]]:
    return ((f"`{one.name}`", headline(one.summary), one.aim.value) for one in FAULTS.values())


def _merged(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Merge the rows that differ in their first column only, which then lists all of them."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for first, *rest in rows:
        merged.setdefault(tuple(rest), []).append(first)
    for shared, firsts in merged.items():
        yield ", ".join(firsts), *shared


def _stories() -> Iterator[tuple[str, ...]]:
    for name, story in catalogue().items():
        replicas = str(story.replicas) if story.needs_topic else ""
        yield f"`{name}`", headline(story.summary), replicas, story.source


def _targets() -> Iterator[tuple[str, str]]:
    return ((f"`{form}`", what) for form, what in expressions.known().items())


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(heading)
    yield _row(["---"] * len(heading))
    for row in rows:
        yield _row(row)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
