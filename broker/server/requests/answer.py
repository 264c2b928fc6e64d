"""Responses in the version of their request.

kio has one set of classes per API and version. Handlers are written once, against the newest
version they support: they name everything, and what an older version lacks is left out.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Any, Final, TypeVar

from kio.index import load_payload_module
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from broker.types import TopicPartition

T = TypeVar("T")

MILLISECOND: Final = timedelta(milliseconds=1)
"""What a time in a request is divided by."""

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
"""Quotas are not modelled, so no client is ever throttled."""


class Answer:
    """Builds the parts of one response.

    >>> answer = Answer.to(request)
    >>> answer("PartitionProduceResponse", index=0, error_code=ErrorCode.none, base_offset=7)
    """

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    @classmethod
    def to(cls, request: Any) -> "Answer":
        """The builder for the API and version of ``request``."""
        return _answer(request.__api_key__, request.__version__)

    def __call__(self, entity: str, /, **values: object) -> Any:
        """The entity, with those of ``values`` that this version has."""
        schema = getattr(self._module, entity)
        names = _field_names(schema)
        if names.issuperset(values):
            return schema(**values)
        return schema(**{name: value for name, value in values.items() if name in names})


def by_topic(outcomes: Mapping[TopicPartition, T]) -> dict[str, list[tuple[int, T]]]:
    """What is answered of partitions, as responses have it: under each topic its partitions'
    numbers, all in order. E.g. ``{"t": [(0, a), (1, b)]}``."""
    topics: dict[str, list[tuple[int, T]]] = {}
    for topic, number in sorted(outcomes):
        outcome = outcomes[TopicPartition(topic, number)]
        topics.setdefault(topic, []).append((number, outcome))
    return topics


@cache
def _answer(api_key: int, version: int) -> Answer:
    return Answer(load_payload_module(api_key, version, EntityType.response))


@cache
def _field_names(schema: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(schema))
