"""The sessions of a producer that writes without transactions.

A *session* is one instance of a client library's producer, with one producer id in the logs. It may
end before its producer does, by a fatal error of the library, which then takes no more records. The
producer continues in another session with another number in records and rows. Records that the
first session had in flight may be appended after the first records of the second one, so duplicates
and order are judged for each session separately. (For transactions see ``history.transactional``.)

Some clients start a new session because of their library alone (:data:`LIBRARY`), which is no fault
of the cluster. Members of groups do so, too; their sessions have no number.
"""

NO_BROKERS = "its client library knew no broker any more (confluentinc/librdkafka#5301)"
NO_ANSWER = "its client library did not come back from a commit"

LIBRARY = frozenset({NO_BROKERS, NO_ANSWER})
"""Reasons for a new session that concern the client library and not the cluster."""

SHOWN_NOTHING = "it read nothing, although records of its cell were acknowledged"
"""The problem of a consumer that stopped receiving records but continued to poll."""

SESSIONS_MAX = 100
"""The greatest number of sessions of one producer. A producer that needs so many is not helped by
another one."""
_APART = 1_000_000
"""The distance between the numbers of two sessions. It is more than the number of producers of a
cell, including their replacements."""


def session_number(producer: int, session: int) -> int:
    """Return the number of a producer's session, the first of which is 0. Raises ValueError if
    there are too many sessions, or if the numbers would overlap those of another producer."""
    if session >= SESSIONS_MAX:
        raise ValueError(f"a producer has at most {SESSIONS_MAX} sessions")
    if producer >= _APART:
        raise ValueError(f"producer {producer} has no sessions of its own")
    return session * _APART + producer


def producer_of_session(number: int) -> int:
    """Return the number of the producer whose session has that number."""
    return number % _APART


def in_words(client: str, session: int, why: str) -> str:
    """Return a sentence that says that a client's session ended and the client continued."""
    if why in LIBRARY:
        return f"the client {client} started session {session + 1}: {why}"
    return f"a fatal error ended session {session} of {client}, which went on in another: {why}"
