"""Assertions of the broker on itself: the errors of the ``check`` methods of its state machines.

They are cheap and change nothing. The simulation calls them after each step, and tests where they
like. A broker in production does not.
"""


class BrokenInvariant(AssertionError):
    """A state that must not occur. The text says what and where."""


def require(condition: bool, what: str, *, of: object) -> None:
    """Raise BrokenInvariant unless ``condition`` holds. ``of`` is the object under check."""
    if not condition:
        raise BrokenInvariant(f"{of}: {what}")
