"""How wrong words are told: with the right one, where there is one that looks like it."""

import difflib
from collections.abc import Iterable, Sequence

_TOLD_MAX = 20


def unknown(kind: str, word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """That there is no ``kind`` called ``word``, and what may have been meant."""
    return f"unknown {kind} {word!r}; {hint(word, known, otherwise=otherwise)}"


def hint(word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """The one of ``known`` that was meant; where nothing looks like it ``otherwise``, or all."""
    names = list(known)
    if (close := closest(word, names)) is not None:
        return f"did you mean {close}?"
    return otherwise or f"known: {_listed(names)}"


def there_are(word: str, known: Iterable[str]) -> str:
    """Return which names there are, those that look most like ``word`` first."""
    names = nearest_first(word, known)
    if not names:
        return "there is none"
    return f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}"


def meant_of(word: str, known: Iterable[str]) -> str:
    """Return which of the names was meant, if one looks like ``word``, and which there are."""
    names = nearest_first(word, known)
    told = there_are(word, names)
    if closest(word, names) is None:
        return told
    return f"did you mean {names[0]}? {told[0].upper()}{told[1:]}"


def nearest_first(word: str, known: Iterable[str]) -> Sequence[str]:
    """Return the names in order of how much they look like ``word``. Names that look alike keep
    their order."""
    wanted = _folded(word)
    return sorted(
        dict.fromkeys(known),
        key=lambda name: -difflib.SequenceMatcher(None, _folded(name), wanted).ratio(),
    )


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that looks most like ``word``, if any does."""
    alike = {_folded(name): name for name in known}
    found = difflib.get_close_matches(_folded(word), alike, n=1, cutoff=0.7)
    return alike[found[0]] if found else None


def _folded(name: str) -> str:
    return name.lower().replace("_", ".")


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _TOLD_MAX else ""
    return f"{', '.join(names[:_TOLD_MAX])}{more}"
