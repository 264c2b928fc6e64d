"""The sessions of a producer that writes outside of transactions.

A *session* is one life of a client library's producer, of one producer id in the logs. It may end
before its producer does: by a fatal error of the library, which takes no more records then. The
producer goes on in another session, under another number, in records and rows: what the one had
under way may be appended behind the first records of the other, so that duplicates and order are
judged of each by itself. (Of transactions: ``history.transactional``.)

Some clients begin anew for the sake of their library alone (:data:`LIBRARY`), of which their cell
has nothing to answer for. So do members of groups, which have no number.
"""

NO_BROKERS = "its client library knew no broker any more (confluentinc/librdkafka#5301)"
NO_ANSWER = "its client library did not come back from a commit"

LIBRARY = frozenset({NO_BROKERS, NO_ANSWER})
"""Reasons to begin anew that say something of the client library, and nothing of the cluster."""

SHOWN_NOTHING = "it was shown nothing, though records of its cell were acknowledged"
"""What did not come of a consumer that fell silent and went on polling."""

SESSIONS_MAX = 100
"""Of one producer: whoever comes to so many does not come to more by trying."""
_APART = 1_000_000
"""More than a cell has producers, with all that may come in their places."""


def session_number(producer: int, session: int) -> int:
    """The number of a producer's session, the first being 0. Raises ValueError for a session too
    many, and for a producer whose sessions would be another one's."""
    if session >= SESSIONS_MAX:
        raise ValueError(f"a producer has at most {SESSIONS_MAX} sessions")
    if producer >= _APART:
        raise ValueError(f"producer {producer} has no sessions of its own")
    return session * _APART + producer


def producer_of_session(number: int) -> int:
    """Return the number of the producer whose session has that number."""
    return number % _APART


def in_words(client: str, session: int, why: str) -> str:
    """That a client's session ended, so many by now, and the client went on."""
    if why in LIBRARY:
        return f"the client {client} began anew, time {session}: {why}"
    return f"a fatal error ended session {session} of {client}, which went on in another: {why}"
