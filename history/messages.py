"""Text for messages: the problem of a stored document, and the last error of a process."""

import json
import re
from collections.abc import Iterable, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails


def printable(text: str) -> str:
    """Return ``text`` with each lone surrogate as an escape sequence. Python's names of files that
    are not UTF-8 contain such surrogates, and no encoding has them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def several(number: int, noun: str) -> str:
    """Return a number of things in words: ``1 record``, ``1,234 records``. The plural of the noun
    has an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# --- errors of documents --------------------------------------------------------------------------
#
# Sentences about the problems of a stored document, which is a JSON file that Ackproof wrote.


_OBJECT = "must be an object with names and values"
_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a name that this version knows",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a shorter number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be {ge} or more",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_long": "has too many values",
    "too_short": "has too few values",
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "json_invalid": "is not valid JSON: {error}",
    "value_error": "{error}",
}
"""The phrase for each of pydantic's error types, with placeholders for its context."""


def in_words(error: ValueError) -> str:
    """Return the first problem of a document and its place, as ``cells.0.lost: must be a whole
    number``. ``error`` is the exception from reading, decoding or validating it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {_reason(first)}" if where else f"it {_reason(first)}"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text: byte {error.start}"
    return str(error)


def _reason(error: ErrorDetails) -> str:
    words = _WORDS.get(error["type"], "has a value that does not belong there")
    return words.format(**error.get("ctx", {}))


# --- last words of a process ----------------------------------------------------------------------
#
# The last error in the log of a process, for the message that it ended.


_ERROR = re.compile(
    r"\b(ERROR|FATAL|CRITICAL)\b|^(Caused by: )?([\w$]+\.)*\w*(Error|Exception)\b"
    r"|^(panic|fatal error|Fatal error|Traceback): |\bpanicked at\b|^terminate called "
)
"""Log lines with errors of servers and clients, and the beginnings of reports of uncaught errors in
Python, Java (the last ``Caused by`` is the root cause), Go, Rust and C++."""
_WORDS_MAX = 300


def last_error(lines: Iterable[str]) -> str | None:
    """Return the last line of a log that reports an error, or None."""
    found = None
    for line in lines:
        found = line.strip() if _ERROR.search(line) else found
    return found and found[:_WORDS_MAX]


def quoted(log: bytes, where: str) -> str:
    """Return the addition to the message that a process ended: the last error in its log, or the
    last line if no line reports an error. ``where`` is the path of the log."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    if (error := last_error(lines)) is not None:
        return f"; the last error in {where}: {error}"
    return f"; the last line in {where}: {lines[-1][:_WORDS_MAX]}" if lines else ""
