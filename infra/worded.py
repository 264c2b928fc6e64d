"""Texts of a certain form in files that users write, and the words that a refusal has for it."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

WORDED = "worded"
"""The type of the error that pydantic reports."""


@dataclass(frozen=True, slots=True)
class Worded:
    """An annotation of a text that matches a pattern.

    Attributes:
        pattern: A regular expression for the whole text, as the JSON Schema has it.
        words: What a right text is, for people: ``PROJECT/SERVICE``.
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


VARIABLE = Worded(
    r"^[A-Za-z_][A-Za-z0-9_]*$",
    "the name of an environment variable: letters, digits and _, no digit first",
)
