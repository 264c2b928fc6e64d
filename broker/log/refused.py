"""Why a leader does not take a batch."""

from kio.schema.errors import ErrorCode


class RefusedBatch(Exception):
    """A batch that must not be appended. ``error`` is what its sender is told, beside the text."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error
