"""Sensitive values: the properties that have one, and the text that replaces it.

A property is sensitive if librdkafka hides its value (``_RK_SENSITIVE`` in ``rdkafka_conf.c``) or
Kafka declares it with ``ConfigDef.Type.PASSWORD``. Both follow naming rules, so a pattern also
covers names of later versions, of plug-ins, and those with a prefix such as
``listener.name.NAME.``. A text with a password in it is sensitive under any name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

HIDDEN = "[hidden]"
"""The text that replaces a secret, as in Kafka for values of ``Type.PASSWORD``."""

Steps = tuple[str | int, ...]

_NAMED = re.compile(
    r"""passw(or)?d | pass[._-]?phrase | secret | credential
    | jaas[._-]config | oauthbearer[._-]config | user[._-]?info$ | connection[._-]string
    | (ssl|keystore|account|access|master|private|api)[._-]?key$ | key[._-]pem
    | keystore[._-]certificate[._-]chain$ | truststore[._-]certificates$ | (^|[._-])token$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ABOUT = re.compile(
    r"""[._-](file|path|location|env|class|algorithm|length|iterations|ms|enabled?|type|id
    |provider|providers)$""",
    re.VERBOSE | re.IGNORECASE,
)
"""The end of a name for a property that describes a secret but is not one: its place or its
encoding."""
_HELD = re.compile(
    r"""(passw(or)?d|passphrase|secret|(access|account|api)[._-]?key)["']?\s*[=:]\s*\S
    | BEGIN[ A-Z]*PRIVATE[ ]KEY | ://[^/\s:@]*:[^/\s@]+@
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Secrets within a text: a password with a value, a private key, a URL with a password."""
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")


def is_sensitive(name: str) -> bool:
    """Return whether the value of the property ``name`` is a secret."""
    return bool(_NAMED.search(name)) and not _ABOUT.search(name)


def holds_secret(value: object) -> bool:
    """Return whether ``value`` is a text with a secret in it."""
    return isinstance(value, str) and bool(_HELD.search(value))


def shown(name: str, value: object) -> str:
    """Return the value of the property ``name`` as text that may be printed."""
    return HIDDEN if is_sensitive(name) or holds_secret(value) else str(value)


def redacted(content: object) -> object:
    """Return ``content`` (mappings, lists and scalars) without its secrets."""
    if isinstance(content, Mapping):
        return {
            name: HIDDEN if is_sensitive(str(name)) and not _is_nested(value) else redacted(value)
            for name, value in content.items()
        }
    if isinstance(content, list | tuple):
        secret = _secret_words(content)
        return [HIDDEN if at in secret else redacted(one) for at, one in enumerate(content)]
    return HIDDEN if holds_secret(content) else content


def secrets_in(content: object, steps: Steps = ()) -> Iterator[Steps]:
    """Yield the steps to each secret in ``content``, in order."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            if is_sensitive(str(name)) and not _is_nested(value) and value is not None:
                yield (*steps, name)
            else:
                yield from secrets_in(value, (*steps, name))
    elif isinstance(content, list | tuple):
        secret = _secret_words(content)
        for at, one in enumerate(content):
            yield from [(*steps, at)] if at in secret else secrets_in(one, (*steps, at))
    elif holds_secret(content):
        yield steps


def _is_nested(value: object) -> bool:
    """Return whether ``value`` contains further names, so that it is not the value of a
    property."""
    inside = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(one, Mapping) for one in inside)


def _secret_words(words: Sequence[object]) -> frozenset[int]:
    """Return which words of a command are secrets: the one after ``--password``."""
    return frozenset(
        at
        for at, option in enumerate(words[:-1], 1)
        if isinstance(option, str) and _OPTION.fullmatch(option) and is_sensitive(option)
    )
