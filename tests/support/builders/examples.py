"""Numbers of examples of property tests."""

import os

_RANDOM = 5
"""So many times as many where new examples are looked for, which is worth the time."""


def examples(count: int) -> int:
    """Return ``count`` for ``make test``, which tries the same examples each time, and more with
    ``HYPOTHESIS_PROFILE=random``, which tries others."""
    return count * _RANDOM if os.environ.get("HYPOTHESIS_PROFILE") == "random" else count
