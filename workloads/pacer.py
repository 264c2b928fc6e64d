"""Open-loop pacing: how many records are due, whatever became of those before."""

BACKLOG_SECONDS = 1.0
"""How much of the schedule may be caught up after a stall; what is older is let go."""


class Pacer:
    """A token bucket that fills at ``rate`` tokens a second and holds at most
    :data:`BACKLOG_SECONDS` worth (and at least one)."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens_max = max(1.0, rate * BACKLOG_SECONDS)
        self._tokens = 0.0
        self._filled_at = now

    def take(self, now: float) -> int:
        """Take every whole token there is; ``now`` in seconds."""
        self._tokens += (now - self._filled_at) * self._rate
        self._tokens = min(self._tokens, self._tokens_max)
        self._filled_at = now
        whole = int(self._tokens)
        self._tokens -= whole
        return whole

    def seconds_to_next(self) -> float:
        """Seconds from the last :meth:`take` until there is a token again."""
        return (1.0 - self._tokens) / self._rate
