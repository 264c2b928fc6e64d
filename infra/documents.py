"""Files that users write: read strictly, refused with everything that is wrong with them.

A refusal names the file and, for every problem found, the field, the value and the reason.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a file. ``field``: its path in there, ``faults[1].hold``."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class DocumentRefused(ValueError):
    """A file that will not be used. Carries the file and every problem found."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


def parse(path: Path) -> str:
    """The YAML file ``path`` as JSON, for pydantic's strict mode. Raises DocumentRefused."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as unreadable:
        raise DocumentRefused(path, [whole_file(f"cannot be read: {unreadable}")]) from None
    except yaml.YAMLError as broken:
        raise DocumentRefused(path, [whole_file(f"not YAML: {broken}")]) from None
    return json.dumps(content, default=str)


def whole_file(reason: str) -> Problem:
    """A problem of no field in particular."""
    return Problem(field="file", reason=reason)


def problems_of(invalid: ValidationError) -> Iterator[Problem]:
    """What pydantic found, one problem each."""
    for error in invalid.errors():
        field = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}"
            for part in error["loc"]
            if not _is_tag(part)
        ).removeprefix(".")
        reason = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            reason = "unknown key"
        elif error["type"] not in ("missing", "value_error"):
            reason += f", not {error['input']!r}"
        yield Problem(field=field or "file", reason=reason)


def _is_tag(part: int | str) -> bool:
    """Whether it is no key of the file: which member of a union pydantic tried (``<story>``)."""
    return isinstance(part, str) and part.startswith("<")


class _Loader(yaml.SafeLoader):
    """Refuses a key given twice, of which YAML would silently keep the last."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)
