"""Assertions of the broker on itself: what the ``check`` methods of its state machines raise.

They are cheap and change nothing. The simulation calls them after each step, tests do so where they
like; a broker in production does not.
"""


class BrokenInvariant(AssertionError):
    """A state that must not be; the text says what and where."""


def require(condition: bool, what: str, *, of: object) -> None:
    """Raise BrokenInvariant unless ``condition`` holds; ``of``: what is checked."""
    if not condition:
        raise BrokenInvariant(f"{of}: {what}")
