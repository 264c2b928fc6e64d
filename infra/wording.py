"""How wrong words are told: with the right one, where there is one that looks like it."""

import difflib
from collections.abc import Iterable

_TOLD_MAX = 20


def unknown(kind: str, word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """That there is no ``kind`` called ``word``, and what may have been meant."""
    return f"unknown {kind} {word!r}; {hint(word, known, otherwise=otherwise)}"


def hint(word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """The one of ``known`` that was meant; where nothing looks like it ``otherwise``, or all."""
    names = list(known)
    if (close := closest(word, names)) is not None:
        return f"did you mean {close}?"
    more = f", ... ({len(names)} in all)" if len(names) > _TOLD_MAX else ""
    return otherwise or f"known: {', '.join(names[:_TOLD_MAX])}{more}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that looks most like ``word``, if any does."""
    alike = {name.lower().replace("_", "."): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("_", "."), alike, n=1, cutoff=0.7)
    return alike[found[0]] if found else None
