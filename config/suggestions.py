"""Messages about unknown words, with a suggestion if a known word is similar."""

import difflib
from collections.abc import Iterable, Sequence

_LISTED_MAX = 20


def unknown(kind: str, word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return that there is no ``kind`` called ``word``, and what may have been meant."""
    return f"unknown {kind} {word!r}; {hint(word, known, otherwise=otherwise)}"


def hint(word: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return the known word that was probably meant. If none is similar, return ``otherwise``, or
    all known words."""
    names = list(known)
    if (close := closest(word, names)) is not None:
        return f"did you mean {close}?"
    return otherwise or f"known: {_listed(names)}"


def there_are(word: str, known: Iterable[str]) -> str:
    """Return the known names, those most similar to ``word`` first."""
    names = nearest_first(word, known)
    if not names:
        return "there is none"
    return f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}"


def meant_of(word: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant, if one is similar to ``word``, and the known
    names."""
    names = nearest_first(word, known)
    complaint = there_are(word, names)
    if closest(word, names) is None:
        return complaint
    return f"did you mean {names[0]}? {complaint[0].upper()}{complaint[1:]}"


def nearest_first(word: str, known: Iterable[str]) -> Sequence[str]:
    """Return the names ordered by their similarity to ``word``. Equally similar names keep their
    order."""
    wanted = _folded(word)
    return sorted(
        dict.fromkeys(known),
        key=lambda name: -difflib.SequenceMatcher(None, _folded(name), wanted).ratio(),
    )


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to ``word``, or None."""
    alike = {_folded(name): name for name in known}
    found = difflib.get_close_matches(_folded(word), alike, n=1, cutoff=0.7)
    return alike[found[0]] if found else None


def _folded(name: str) -> str:
    return name.lower().replace("_", ".")


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _LISTED_MAX else ""
    return f"{', '.join(names[:_LISTED_MAX])}{more}"
