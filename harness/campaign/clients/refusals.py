"""What librdkafka says of properties that it refuses, and what may have been meant."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException

from ackproof.config.suggestions import closest

_UNHEARD = logging.Logger("librdkafka", level=logging.CRITICAL + 1)

_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_NOWHERE = "http://127.0.0.1:0/"


def refusal(make: Callable[..., Any], config: Mapping[str, str | bool | int | float]) -> str | None:
    """Return librdkafka's reason to refuse ``config``; None if it accepts it.

    The client exists for a moment and must have no effect. With ``debug``, librdkafka writes to
    standard error whatever its ``log_level`` is, unless it has a logger. With
    ``sasl.oauthbearer.method: oidc``, a client asks for a token as soon as it exists.

    Args:
        make: The class of the client.
        config: Its properties, without ``bootstrap.servers``: it connects to nothing.
    """
    endpoint = {_TOKEN_ENDPOINT: _NOWHERE} if _TOKEN_ENDPOINT in config else {}
    try:
        client = make({**config, **endpoint, "log_level": 0}, logger=_UNHEARD)
    except KafkaException as refused:
        return str(refused.args[0].str()).strip()
    except (TypeError, ValueError) as refused:
        return str(refused)
    client.close()
    return None


def meant(told: str, name: str, often_set: Iterable[str]) -> str:
    """``told``: librdkafka's reason to refuse the property ``name``; with the one of ``often_set``
    that is like it, where there is none of that name."""
    close = closest(name, often_set) if told.startswith("No such") else None
    return f"{told}; did you mean {close}?" if close else told
