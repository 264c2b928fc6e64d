"""Clients that go on in another session, after a fatal error of their client library or since it
would have done no more (``history.sessions``): each such end of a session is written down."""

from ackproof.harness.running.context import Run
from ackproof.history.sessions import in_words


def look(run: Run) -> None:
    """Take note of the sessions that have ended since the last look, as far as clients tell."""
    for one in tuple(run.started):
        name, ended = one.client.name, one.counts().get("sessions_ended", 0)
        if ended <= run.sessions_ended.get(name, 0):
            continue
        run.sessions_ended[name] = ended
        why = one.fatal()
        run.recorder.client(name, None, None, why, session=ended)
        run.tell(f"workload: {in_words(name, ended, why)}")
