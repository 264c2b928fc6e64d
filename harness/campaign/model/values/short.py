"""A list of entries in a campaign file, each for some cells, and its short form for all cells:
``name: orders`` or ``expect: fail``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


@dataclass(frozen=True, slots=True)
class Short:
    """An annotation of a list of entries: an entry alone is a list of one, and a text alone an
    entry for every cell.

    Attributes:
        key: The key of an entry that the text belongs to.
        text: The JSON Schema of the text.
        needs_key: Whether each entry must have the key.
    """

    key: str
    text: Mapping[str, Any]
    needs_key: bool = True

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._entries, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [dict(self.text), listed["items"], listed]}

    def _entries(self, written: object) -> object:
        if isinstance(written, str):
            return ({self.key: written},)
        if isinstance(written, dict) and (self.key in written or not self.needs_key):
            return (written,)
        if isinstance(written, dict):  # `{acks}` without quotes is one, too
            raise PydanticCustomError(
                "short", "text in quotes, or an entry with the key {key}", {"key": self.key}
            )
        return tuple(written) if isinstance(written, list) else written
