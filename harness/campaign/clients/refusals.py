"""What librdkafka says of a property that it refuses, and what may have been meant."""

from collections.abc import Iterable

from infra.wording import closest


def meant(told: str, name: str, often_set: Iterable[str]) -> str:
    """``told``: librdkafka's reason to refuse the property ``name``; with the one of ``often_set``
    that is like it, where there is none of that name."""
    close = closest(name, often_set) if told.startswith("No such") else None
    return f"{told}; did you mean {close}?" if close else told
