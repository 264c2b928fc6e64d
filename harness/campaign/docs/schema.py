"""The JSON Schema of campaign files, generated from the model that reads them. Editors use it, and
so do the reference (:mod:`harness.campaign.docs.reference`) and the suggestions for unknown keys.

The model defines the keys and their meanings. The names that they may hold are in tables of other
packages: backends, systems and their properties, workloads, faults and their parameters.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
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
from ackproof.nemesis.process.commands import COMMAND
from ackproof.nemesis.targets import expressions
from ackproof.workloads import WORKLOADS

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
    named = {"anyOf": [{"enum": list(CLIENTS)}, {"type": "string", "pattern": "/"}]}
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


def as_text() -> str:
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
