"""The exception that ends a run."""


class Violation(AssertionError):
    """A broken invariant, named ``Subsystem/what-went-wrong``, with the place and the
    circumstances."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        return type(self), (self.invariant, self.what)
