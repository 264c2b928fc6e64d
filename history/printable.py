"""Text that can be written wherever text is written."""


def printable(text: str) -> str:
    """Return ``text`` with each lone surrogate as an escape sequence: Python's names of files that
    are not UTF-8 have some, and no encoding does."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
