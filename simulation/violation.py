"""What ends a run."""


class Violation(AssertionError):
    """``invariant`` does not hold; the rest says where and how."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        return type(self), (self.invariant, self.what)
