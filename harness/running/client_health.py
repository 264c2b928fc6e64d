"""The health of clients: clients that fall silent, and clients that begin another session.

A client is silent if it runs, and a sign of life that is due does not come.

- A producer always owes the outcome of some record, until all records that it has to send have
  theirs. It has records under way, or must send some. Each of them is acknowledged, fails or is
  given up within ``message.timeout.ms``.
- A consumer owes a poll, whether or not there is anything to read, and reports it once a second. It
  may wait for the answer to a commit. librdkafka gives that up after ``session.timeout.ms`` and six
  times ``socket.timeout.ms``, and its member soon after.
- A consumer owes a read if it has partitions, records of its cell are acknowledged, and no fault is
  active.

A client that is silent for longer than that is recorded, once for each silence. A client that a
fault has paused is silent because of the fault. Its time begins again when it is resumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.harness.campaign.clients import message_timeout_ms
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.context import Run
from ackproof.harness.running.processes import last_words
from ackproof.history.sessions import SHOWN_NOTHING, in_words
from ackproof.infra.api.interface import InfraError
from ackproof.workloads.configuration import commit_s
from ackproof.workloads.interface import ClientRole

# --- silent clients -------------------------------------------------------------------------------

SLACK_S = 10.0
"""Extra time in seconds for busy machines, and for progress files that are copied from hosts."""

Figures = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sign:
    """A sign of life that a client owes.

    Attributes:
        figures: The figures of its progress file that the sign changes.
        words: The omission, for a message, if none of them changes.
        begun: The figure that shows that the sign is due.
        in_peace: Whether it is due only while no fault is active.
    """

    figures: Sequence[str]
    words: str
    begun: str | None = None
    in_peace: bool = False


_SIGNS: Mapping[ClientRole, Sequence[_Sign]] = {
    ClientRole.PRODUCER: [
        _Sign(
            figures=("acked", "failed", "indeterminate"),
            words="none of its records was acknowledged, failed or was given up",
        )
    ],
    ClientRole.CONSUMER: [
        _Sign(figures=("time",), words="it has not polled"),
        _Sign(
            figures=("shown",),
            words=SHOWN_NOTHING,
            begun="assigned",
            in_peace=True,
        ),
    ],
}


@dataclass(slots=True)
class _LastSign:
    """The last sign of life: its figures and its time. ``acked`` is the number of records of its
    cell that were acknowledged by then."""

    said: Sequence[int | None]
    at: float
    acked: int
    is_reported: bool = False


@dataclass
class SilenceWatch:
    """The watch over the clients of a run for silence."""

    run: Run
    _heard: dict[tuple[str, int], _LastSign] = field(default_factory=dict)

    def look(self) -> None:
        """Record the signs of life since the last look, and report the clients that have been
        silent for too long."""
        running = [(one, figures) for one in tuple(self.run.running) if (figures := one.counts())]
        acked: dict[str | None, int] = {}
        for one, figures in running:
            cell = one.client.cell
            acked[cell] = acked.get(cell, 0) + figures.get("acked", 0)
        for one, figures in running:
            for number, sign in enumerate(_SIGNS[one.client.role]):
                said = [figures.get(name) for name in sign.figures]
                now = _LastSign(
                    said=said, at=self.run.clock.monotonic(), acked=acked[one.client.cell]
                )
                if self._excused(one, sign, figures):
                    self._heard.pop((one.client.name, number), None)
                # A consumer that does not poll reads nothing, which needs no report of its own.
                if self._listens_in_vain(one, number, sign, now):
                    break

    def _listens_in_vain(
        self, one: ClientProcess, number: int, sign: _Sign, now: _LastSign
    ) -> bool:
        heard = self._heard.setdefault((one.client.name, number), now)
        if heard.said != now.said:
            self._heard[one.client.name, number] = now
            return False
        if not heard.is_reported and self._is_silent(one, sign, heard, now):
            heard.is_reported = True
            self._tell(one, sign, now.at - heard.at)
        return heard.is_reported

    def _excused(self, one: ClientProcess, sign: _Sign, figures: Figures) -> bool:
        if sign.begun is not None and not figures.get(sign.begun):
            return True
        if _is_done(one, sign, figures):
            return True
        ledger = self.run.ledger
        if ledger.upon(one.client.name) is not None:
            return True
        return sign.in_peace and bool(ledger.still_open())

    def _is_silent(self, one: ClientProcess, sign: _Sign, heard: _LastSign, now: _LastSign) -> bool:
        if now.at - heard.at <= limit_s(self.run, one):
            return False
        if sign.in_peace and now.acked <= heard.acked:
            return False
        # The progress files of an unreachable host are out of date.
        try:
            self.run.client_node(one.client.node).sync()
        except InfraError:
            return False
        return [one.counts().get(name) for name in sign.figures] == heard.said

    def _tell(self, one: ClientProcess, sign: _Sign, seconds: float) -> None:
        how = f"was silent for {seconds:.0f} s: {sign.words}"
        if sign.words != SHOWN_NOTHING:  # the checkers recognize it by the end of the sentence
            how += last_words(self.run.client_node(one.client.node), one.client.name)
        self.run.recorder.client(one.client.name, None, None, how)
        self.run.tell(f"workload: the client {one.client.name} {how}")


def _is_done(one: ClientProcess, sign: _Sign, figures: Figures) -> bool:
    """Return whether the client is a producer with a limited number of records, and has an outcome
    of each."""
    records = one.client.specification.get("records")
    if one.client.role is not ClientRole.PRODUCER or not isinstance(records, int):
        return False
    return sum(figures.get(name, 0) for name in sign.figures) >= records


def limit_s(run: Run, one: ClientProcess) -> float:
    """Return how long a client may be silent, in seconds."""
    if one.client.role is ClientRole.PRODUCER:
        cell = next(cell for cell in run.cells if cell.name == one.client.cell)
        return message_timeout_ms(cell) / 1000 + SLACK_S
    given = one.client.specification["consumer_config"]
    assert isinstance(given, Mapping)
    return commit_s(given) + SLACK_S


# --- ended sessions -------------------------------------------------------------------------------
#
# A client begins another session after a fatal error of its client library, or when the library
# would do no more (``history.sessions``). The end of each session is recorded.


def note_ended_sessions(run: Run) -> None:
    """Record the sessions that have ended since the last look, as far as the clients report
    them."""
    for one in tuple(run.started):
        name, ended = one.client.name, one.counts().get("sessions_ended", 0)
        if ended <= run.sessions_ended.get(name, 0):
            continue
        run.sessions_ended[name] = ended
        why = one.fatal()
        run.recorder.client(name, None, None, why, session=ended)
        run.tell(f"workload: {in_words(name, ended, why)}")
