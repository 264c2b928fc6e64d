"""The error of all conformance checks."""


class NotConforming(AssertionError):
    """A plug-in's object that does not keep its contract; the message says in what."""
