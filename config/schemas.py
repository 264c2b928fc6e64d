"""Look-ups in a JSON Schema: the keys that are allowed in each place."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ackproof.config.suggestions import closest

Schema = Mapping[str, Any]


def keys(schema: Schema, steps: Sequence[str | int]) -> list[str]:
    """Return the known keys of the mapping at ``steps``."""
    found = [key for one in _at(schema, steps) for key in _properties(one)]
    return list(dict.fromkeys(found))


def is_tag(step: object) -> bool:
    """Return whether a step of pydantic's is not a key of the file but the chosen member of a
    union: ``<NAME>``, after its definition in the schema."""
    return isinstance(step, str) and step.startswith("<")


def misplaced(schema: Schema, steps: Sequence[str | int], key: str) -> str:
    """Return what an unknown key may have meant: a similar key, or the mappings in which it is
    known. Return an empty string if neither exists."""
    known = keys(schema, steps)
    if (close := closest(key, known)) is not None:
        return f"did you mean {close}?"
    path = _path(steps)
    # The branch of a fault reports problems of the fault's own parameters.
    branches = [then for one in _at(schema, steps) for then in _if_schema(one.get("then"))]
    below = [home for branch in branches for home in _homes(schema, branch, key, path)]
    homes = list(dict.fromkeys(below or _homes(schema, schema, key, "")))
    if homes and path not in homes:  # it is known there for another member of the union
        return f"it belongs to {' or '.join(home or 'the top level' for home in homes)}"
    return f"known: {', '.join(known)}" if known else ""


def variants(schema: Schema, node: Schema) -> Iterator[Schema]:
    """Yield ``node`` with its references followed, and each of its alternatives separately."""
    if "$ref" in node:
        target: Any = schema
        for part in str(node["$ref"]).removeprefix("#/").split("/"):
            target = target[part]
        yield from variants(schema, target)
    yield node
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from variants(schema, one)


def _at(schema: Schema, steps: Sequence[str | int]) -> list[Schema]:
    """Return the schemas of the value at ``steps``, each alternative separately."""
    nodes = [schema]
    for step in steps:
        nodes = [inner for node in nodes for inner in _children(schema, node, step)]
    return [one for node in nodes for one in variants(schema, node)]


def _children(schema: Schema, node: Schema, step: str | int) -> Iterator[Schema]:
    for one in variants(schema, node):
        if is_tag(step):
            if str(one.get("$ref")).endswith(f"/{str(step)[1:-1]}"):
                yield one
        elif isinstance(step, int):
            yield from _if_schema(one.get("items"))
        elif step in _properties(one):
            yield _properties(one)[step]
        else:
            yield from one.get("patternProperties", {}).values()
            yield from _if_schema(one.get("additionalProperties"))


def _path(steps: Sequence[str | int]) -> str:
    """Return the path in the form that :func:`_homes` uses."""
    named = (step for step in steps if not is_tag(step))
    return "".join("[]" if isinstance(one, int) else f".{one}" for one in named).removeprefix(".")


def _homes(schema: Schema, node: Schema, key: str, path: str) -> Iterator[str]:
    for one in variants(schema, node):
        properties = _properties(one)
        if key in properties:
            yield path
        for name, inner in properties.items():
            yield from _homes(schema, inner, key, f"{path}.{name}".removeprefix("."))
        for inner in _if_schema(one.get("items")):
            yield from _homes(schema, inner, key, f"{path}[]")


def _properties(node: Schema) -> Mapping[str, Any]:
    found: Mapping[str, Any] = node.get("properties", {})
    return found


def _if_schema(node: object) -> Iterator[Schema]:
    if isinstance(node, Mapping):
        yield node
