"""Documents about campaign files in general: their JSON Schema, their reference, and a template.

The JSON Schema is generated from the model that reads campaign files. Editors use it, and so do the
reference and the suggestions for unknown keys. The model defines the keys and their meanings. The
names that they may hold are in tables of other packages: backends, systems and their properties,
workloads, faults and their parameters.

The reference, ``docs/campaigns.md``, is generated from the schema and the catalogue of faults. Its
text outside the tables is in ``reference.md`` beside this module.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from ackproof.config.schemas import Schema
from ackproof.harness.campaign.backends import BACKENDS
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.values import Section, one_or_several
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.history.cell import SETTINGS
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.systems import product, properties
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import headline
from ackproof.nemesis.process.commands import COMMAND
from ackproof.nemesis.targets import expressions
from ackproof.workloads import WORKLOADS

# --- the schema -----------------------------------------------------------------------------------

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    """A schema generator without titles of fields, which would only repeat their names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False


@cache
def schema() -> Schema:
    """Return the schema of a whole campaign file."""
    made = Campaign.model_json_schema(by_alias=True, schema_generator=_Untitled)
    sections: dict[str, Any] = {**made["$defs"], Campaign.__name__: made}
    for section in _sections(Section):
        if section.__name__ in sections:
            _complete(sections[section.__name__], section)
    fields = {name: one["properties"] for name, one in sections.items() if "properties" in one}
    fields["ClusterSweep"]["backend"]["enum"] = list(BACKENDS)
    _add_systems(fields["ClusterSweep"]["system"])
    named = {"anyOf": [{"enum": list(CLIENTS)}, {"type": "string", "pattern": "/|^java:"}]}
    fields["Cells"]["client"] |= one_or_several(named)
    fields["WorkloadSpec"]["kind"]["enum"] = list(WORKLOADS)
    _add_parameters(sections["WorkloadSpec"])
    for one in fields["Campaign"].values():  # pydantic omits a section's own description
        if "$ref" in one:
            one["description"] = one["description"] or _referred(made, one)["description"]
    _add_properties(fields)
    _add_faults(sections["FaultEntry"])
    fields["StoryEntry"]["story"]["enum"] = list(catalogue())
    return {"$schema": _DIALECT, "title": "Ackproof campaign", **made, **_no_other_properties()}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _sections(of: type[Section]) -> Iterator[type[Section]]:
    for section in of.__subclasses__():
        yield section
        yield from _sections(section)


def _complete(made: dict[str, Any], section: type[BaseModel]) -> None:
    """Write defaults as a file has them (``5s`` instead of 5000), and none for whole sections,
    which have their own."""
    made.pop("title", None)
    made["description"] = _one_line(made["description"])
    written = section.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    for name, one in made["properties"].items():
        one["description"] = _one_line(one.get("description", ""))
        default = written.get(name)
        if default is not None:
            one["default"] = default
        if one.get("default") is None or isinstance(default, dict):
            one.pop("default", None)


def _referred(made: Schema, node: Schema) -> Schema:
    found: Schema = made["$defs"][node["$ref"].rpartition("/")[2]]
    return found


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _add_systems(system: dict[str, Any]) -> None:
    """Add the names of systems, and the two releases of an upgrade."""
    named = {"type": system.pop("type"), "pattern": systems.pattern()}
    release = {"type": "string", "pattern": f"^{product.KAFKA}:.+$"}
    two = {"from": release, "to": release}
    upgrade = {"type": "object", "properties": two, "required": list(two)}
    system["anyOf"] = [named, {**upgrade, "additionalProperties": False}]


def _add_properties(fields: Mapping[str, Any]) -> None:
    brokers, topics = _bundled()
    fields["ClusterSweep"]["properties"] |= _mapping(brokers, lists=True)
    fields["Cells"]["topic"] |= _mapping(topics, lists=True)
    (compared,) = fields["ClusterSweep"]["compare"]["patternProperties"].values()
    compared |= _mapping(brokers, lists=False)


def _mapping(known: Mapping[str, Schema], *, lists: bool) -> dict[str, Any]:
    """Return the schema of properties by name, with their values, or with ``lists`` of these as
    well."""
    return {"properties": {name: _property(one, lists=lists) for name, one in known.items()}}


def _bundled() -> tuple[Mapping[str, Schema], Mapping[str, Schema]]:
    """Return the properties of the bundled broker, of brokers and of topics, that a campaign may
    set."""
    known = systems.known(product.BUNDLED)
    assert known is not None
    return (
        {name: one for name, one in known.broker.items() if name not in properties.RESERVED},
        {name: one for name, one in known.topic.items() if name not in SETTINGS},
    )


def _no_other_properties() -> Schema:
    """Return the rule that a campaign for the bundled broker has no other properties. For other
    systems, validation judges them."""
    broker, topic = ({"propertyNames": {"enum": list(some)}} for some in _bundled())
    cluster = {"properties": broker, "compare": {"additionalProperties": broker}}
    other = {"properties": {"system": {"not": {"const": product.BUNDLED}}}, "required": ["system"]}
    return {
        "if": {"properties": {"cluster": other}, "required": ["cluster"]},
        "else": {
            "properties": {
                "cluster": {"properties": cluster},
                "cells": {"properties": {"topic": topic}},
            }
        },
    }


def _property(one: Schema, *, lists: bool) -> dict[str, Any]:
    described = {key: one[key] for key in ("description", "default") if key in one}
    value = {key: one[key] for key in one if key not in described}
    return described | (one_or_several(value) if lists else value)


def _add_parameters(section: dict[str, Any]) -> None:
    """Add the parameters of the workloads that have any."""
    if own := {n: one.parameters for n, one in WORKLOADS.items() if one.parameters.model_fields}:
        section["allOf"] = [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {
                    "properties": {
                        "parameters": parameters.model_json_schema(schema_generator=_Untitled)
                    }
                },
            }
            for name, parameters in own.items()
        ]


def _add_faults(entry: dict[str, Any]) -> None:
    fields = entry["properties"]
    fields["fault"]["enum"] = list(FAULTS)
    forms = "; ".join(f"{form}: {what}" for form, what in expressions.known().items())
    described = f"{fields['target']['description']} Sets: {forms}. Links: A -> B, A <-> B."
    fields["target"]["markdownDescription"] = described  # editors show it if present
    # A command may do without a target; all others need one.
    entry["required"] = [key for key in entry["required"] if key != "target"]
    entry["allOf"] = [
        {
            "if": {"properties": {"fault": {"const": name}}},
            "then": {
                "properties": {
                    "fault": {"description": fault.summary},
                    "parameters": fault.parameters.model_json_schema(schema_generator=_Untitled),
                },
                **({"required": ["parameters"]} if name == COMMAND else {"required": ["target"]}),
            },
        }
        for name, fault in FAULTS.items()
    ]


# --- the reference --------------------------------------------------------------------------------

_WORDS = {"string": "text", "boolean": "boolean", "object": "mapping"}
_LISTED_MAX = 10
"""The most values that a type lists. For more, the meaning of the key says where to find them."""
_ON_ANOTHER_PAGE = "cluster.external."
"""The path of the sections that ``docs/your-cluster.md`` describes."""


def reference_page() -> str:
    """Return the page in Markdown."""
    text = Path(__file__).with_name("reference.md").read_text(encoding="utf-8")
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
            for name in _sections_of(node):
                inner = f"{path}.{key}{'.NAME' if _of_names(node) else ''}".removeprefix(".")
                definition = whole["$defs"][name]
                if name not in found and "properties" in definition:
                    # If either of two sections is allowed, each is named after a key that it
                    # requires.
                    several = len(set(_sections_of(node))) > 1
                    found[name] = f"{inner}: {definition['required'][0]}" if several else inner
                    waiting.append((inner, whole["$defs"][name]))
    return found


def _sections_of(node: Schema) -> Iterator[str]:
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2]
    either = (*node.get("anyOf", ()), *node.get("oneOf", ()))
    for inner in (*either, *([node["items"]] if "items" in node else []), *_of_names(node)):
        yield from _sections_of(inner)


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
