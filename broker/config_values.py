"""Values that properties may have: how each kind is read, and what is said when it is wrong."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field


class Listener(NamedTuple):
    """Where to listen, or what to tell clients; ``PLAINTEXT://host:port`` in the file."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"PLAINTEXT://{self.host}:{self.port}"


class HttpListener(NamedTuple):
    """Where to serve HTTP; ``http://host:port`` in the file."""

    host: str
    port: int


def _listener(value: object) -> Listener:
    if isinstance(value, Listener):
        return value
    return Listener(*_address(value, "one listener such as PLAINTEXT://host:9092"))


def _http_listener(value: object) -> HttpListener | None:
    if value is None or isinstance(value, HttpListener):
        return value
    return HttpListener(*_address(value, "an address such as http://host:9308"))


def _address(value: object, example: str) -> tuple[str, int]:
    """Host and port of a URL with the scheme of ``example`` and nothing behind the port."""
    expected = f"Input should be {example}"
    try:
        url = urlsplit(str(value))
        port = url.port
    except ValueError as error:
        raise ValueError(expected) from error
    scheme_fits = f" {url.scheme.lower()}://" in example.lower()
    if not scheme_fits or port is None or "," in str(value) or url.path.strip("/"):
        raise ValueError(expected)
    return url.hostname or "", port


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in {"true", "false"}:
        raise ValueError("Input should be true or false")
    return str(value).strip().lower() == "true"


def _paths(value: object) -> tuple[Path, ...]:
    if isinstance(value, tuple):
        return value
    paths = tuple(Path(part.strip()) for part in str(value).split(",") if part.strip())
    if not paths:
        raise ValueError("Input should be one or more directories, separated by commas")
    return paths


def _version(value: object) -> tuple[int, ...]:
    if isinstance(value, tuple):
        return value
    numbers = str(value).split("-")[0].split(".")
    if not all(number.isdigit() for number in numbers) or len(numbers) < 2:
        raise ValueError("Input should be a version such as 3.4 or 0.10.2")
    return tuple(map(int, numbers))


def _count_by_address(value: object) -> object:
    if isinstance(value, tuple):
        return value
    entries = [entry.rpartition(":") for entry in str(value).split(",") if entry.strip()]
    if not all(address.strip() and count.strip().isdigit() for address, _, count in entries):
        raise ValueError("Input should be a list such as 10.0.0.1:100,10.0.0.2:200")
    return tuple((address.strip(), int(count)) for address, _, count in entries)


_PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


def _written(pattern: str) -> object:
    """The type, in ``server.properties``, of what is read from text."""
    return Annotated[str, Field(pattern=pattern)]


MessageTimestampType = Literal["CreateTime", "LogAppendTime"]
Version = Annotated[
    tuple[int, ...],
    BeforeValidator(_version, json_schema_input_type=_written(r"^[0-9]+(\.[0-9]+)+(-.*)?$")),
]
Bool = Annotated[bool, BeforeValidator(_boolean)]
Paths = Annotated[
    tuple[Path, ...], BeforeValidator(_paths, json_schema_input_type=_written(r"[^,\s]"))
]
CountByAddress = Annotated[
    tuple[tuple[str, int], ...],
    BeforeValidator(
        _count_by_address,
        json_schema_input_type=_written(r"^([^,\s]+:[0-9]+(,[^,\s]+:[0-9]+)*)?$"),
    ),
]
MetricsListener = Annotated[
    HttpListener | None,
    BeforeValidator(
        _http_listener, json_schema_input_type=_written(rf"^http://[A-Za-z0-9.-]+:{_PORT}$")
    ),
]
OneListener = Annotated[
    Listener,
    BeforeValidator(
        _listener, json_schema_input_type=_written(rf"^PLAINTEXT://[A-Za-z0-9.-]*:{_PORT}$")
    ),
]
NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
MinusOneOrMore = Annotated[int, Field(ge=-1)]
