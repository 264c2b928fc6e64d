"""What follows of records that stand in the log more than once: by which of the known ways the
copies came there, and on whose word.

A client sends again what it has no answer of: a connection broke, a request was not answered in
time, the leader changed. Clients do not record that; what is recorded is when the record was handed
to the library and when the library had its last word. So a second attempt is what explains a copy,
and it does so only where it can have been made:

- not with ``retries=0``;
- not sooner after the send than a library waits before it sends again;
- not after the ack: not in an epoch in which nobody led when the ack came.

That log and producer are to prevent it anyway is a matter of sessions and sequence numbers, which
the raw logs tell (:mod:`checkers.raw_logs.sessions`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ackproof.checkers.arrays import NONE
from ackproof.checkers.autopsy.explaining import faults_on
from ackproof.checkers.autopsy.kinds import Kind
from ackproof.checkers.autopsy.scene import FaultSeen, Reign, Scene
from ackproof.checkers.partition.indexes import Fate, PartitionHistory
from ackproof.checkers.raw_logs.sessions import Session, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A record that stands in the log more than once.

    Attributes:
        record: Its number.
        offsets, epochs: Of its copies, in the order of the log; NONE for an epoch that is not told.
        written: What raw logs say of each; none where they do not tell of all.
        asked, answered: When it was sent, and when the client had its answer; NONE for never.
    """

    record: int
    offsets: Sequence[int]
    epochs: Sequence[int]
    written: Sequence[Written]
    asked: int
    answered: int

    @property
    def sessions(self) -> tuple[Session, ...]:
        """In which it was written, each once."""
        return tuple(dict.fromkeys(one.session for one in self.written))

    @property
    def led(self) -> tuple[int, ...]:
        """The epochs that hold it, each once."""
        return tuple(dict.fromkeys(epoch for epoch in self.epochs if epoch != NONE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatStory:
    """Of several of them, which were under way at one time.

    Attributes:
        reigns: The epochs that hold them; those of which nobody knows who led are left out.
        epochs: Likewise, but all.
        sessions: As in :class:`Repeat`.
        acked: Whether the acks name the last copy of each; None where that differs, and where there
            are none.
        faults: Those that were on while they were under way.
        disks: Those that took data from the disk of who appended a later copy.
        why: What nothing explains, or what is missing; a clause.
    """

    kind: Kind
    repeats: Sequence[Repeat]
    reigns: Sequence[Reign]
    epochs: Sequence[int]
    sessions: Sequence[Session]
    acked: bool | None
    faults: Sequence[FaultSeen]
    disks: Sequence[FaultSeen]
    why: str


def stories(
    repeats: Sequence[Repeat], history: PartitionHistory, scene: Scene
) -> list[RepeatStory]:
    """The stories of all of them, in the order in which they were sent."""
    found = []
    for burst in _bursts(repeats):
        explained = [(_explained(one, history, scene), one) for one in burst]
        keyed = sorted(explained, key=lambda pair: _key(*pair))
        for _, pairs in groupby(keyed, key=lambda pair: _key(*pair)):
            alike = list(pairs)
            (kind, why), _ = alike[0]
            found.append(_story(kind, why, [one for _, one in alike], history, scene))
    return found


def _key(explained: tuple[Kind, str], one: Repeat) -> tuple[object, ...]:
    return *explained, one.led, one.sessions


def _bursts(repeats: Sequence[Repeat]) -> Iterator[list[Repeat]]:
    """Those that were under way at one time: none of them was answered before the next was sent."""
    some: list[Repeat] = []
    end = NONE
    for one in sorted(repeats, key=lambda one: one.asked):
        if some and one.asked > end:
            yield some
            some = []
        some.append(one)
        end = max(end, one.asked, one.answered)
    if some:
        yield some


def _story(
    kind: Kind, why: str, some: Sequence[Repeat], history: PartitionHistory, scene: Scene
) -> RepeatStory:
    known = _reigns(scene)
    epochs = some[0].led
    reigns = [known[epoch] for epoch in epochs if epoch in known]
    since = min(one.asked for one in some)
    until = max(max(one.asked, one.answered) for one in some)
    named = {
        int(history.acked_offset[one.record]) == one.offsets[-1]
        if history.fate[one.record] == Fate.ACKED and history.acked_offset[one.record] != NONE
        else None
        for one in some
    }
    return RepeatStory(
        kind=kind,
        repeats=some,
        reigns=reigns,
        epochs=epochs,
        sessions=some[0].sessions,
        acked=named.pop() if len(named) == 1 else None,
        faults=faults_on(scene, since, until, [reign.leader for reign in reigns]),
        disks=_disks(some[0], scene),
        why=why,
    )


def _explained(one: Repeat, history: PartitionHistory, scene: Scene) -> tuple[Kind, str]:
    """The kind, and for one that does not explain it what speaks against the others."""
    numbered = [told.producer_id != NONE for told in one.written]
    if not scene.sender.idempotent and not any(numbered):
        against = _never_resent(one, history, scene)
        if against:
            return Kind.UNEXPLAINED, against
        known = _reigns(scene)
        leaders = {known[epoch].leader for epoch in one.led if epoch in known}
        return (Kind.RETRIED_AT_NEXT_LEADER if len(leaders) > 1 else Kind.RETRIED), ""
    if not one.written:
        return Kind.UNKNOWN, "no raw log tells in which session of its producer each was written"
    if not all(numbered):
        return Kind.UNEXPLAINED, "not all copies have a producer id, and the producer is idempotent"
    return _numbered(one, scene)


def _numbered(one: Repeat, scene: Scene) -> tuple[Kind, str]:
    # Session and number are the client's own writing: that it sent it again is no question.
    if len(one.sessions) == len(one.written):
        return Kind.NEW_SESSION, ""
    if len(set(one.written)) == len(one.written):
        return Kind.RENUMBERED, ""
    if _disks(one, scene):
        return Kind.FORGOTTEN, ""
    why = "they have the same producer id, epoch and sequence number, by which any log knows them"
    return Kind.UNEXPLAINED, f"{why} again"


def _never_resent(one: Repeat, history: PartitionHistory, scene: Scene) -> str:
    """Why its client cannot have sent it again; empty where it may have."""
    if scene.sender.retries == 0:
        return "with retries=0 nothing is sent again"
    if history.fate[one.record] != Fate.ACKED or one.answered == NONE:
        return ""
    if one.asked != NONE and one.answered - one.asked < scene.sender.resends_after:
        return "they were acked sooner than a client sends anything again"
    known = _reigns(scene)
    for epoch in one.led:
        if epoch in known and one.answered < known[epoch].elected_after:
            return f"they were acked before anybody led epoch {epoch}"
    return ""


def _disks(one: Repeat, scene: Scene) -> list[FaultSeen]:
    """Faults that took data from the disk of who appended a copy that is not the first, from when
    it was sent on: what a log remembers of its producers may have gone with that."""
    known = _reigns(scene)
    leaders = {known[epoch].leader for epoch in one.epochs[1:] if epoch in known}
    until = max(one.asked, one.answered)
    return [
        fault
        for fault in scene.faults
        if fault.took >= one.asked and fault.start <= until and any(map(fault.befell, leaders))
    ]


def _reigns(scene: Scene) -> Mapping[int, Reign]:
    return {reign.epoch: reign for reign in scene.reigns}


def repeats_of(
    found: Mapping[int, Sequence[int]], history: PartitionHistory, written: Mapping[int, Written]
) -> list[Repeat]:
    """Of :attr:`checkers.partition.indexes.PartitionHistory.copies`, in its order."""
    offsets = [offset for of_one in found.values() for offset in of_one]
    epochs = iter(history.epoch_at(np.array(offsets, dtype=np.int64)).tolist())
    return [
        Repeat(
            record=record,
            offsets=of_one,
            epochs=[next(epochs) for _ in of_one],
            written=[written[at] for at in of_one if at in written]
            if all(at in written for at in of_one)
            else [],
            asked=int(history.asked[record]),
            answered=int(history.answered[record]),
        )
        for record, of_one in found.items()
    ]
