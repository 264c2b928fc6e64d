"""Who is in which generation of a group, as its members were told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation.observer.observer import Observer
from simulation.violation import Violation

TICKS_S: Final = 1.0
"""Within which a coordinator looks whose session is over."""


@dataclass(slots=True)
class _Group:
    given: int = -1
    """The highest generation in which somebody was given an assignment."""
    members: dict[int, frozenset[str]] = field(default_factory=dict)
    """By generation, as its leader was told."""


class _Heard(NamedTuple):
    """When a member's word was last taken, at the latest, and by whom."""

    at: float
    by: server.Partition | None
    epoch: int | None


class Before(NamedTuple):
    """What there was when a member asked."""

    given: int
    """The highest generation with assignments."""
    coordinator: int
    epoch: int | None
    """In which that one led the group's partition; None: it did not, or had not heard of it."""
    ended: int = 0
    """How often the group was gone by then."""
    heard: _Heard | None = None
    """Of the member that asks; None where a question of its has had no answer since, or another
    one than was hoped for: it may have been heard of by that."""


class Generations:
    """Judges each answer of a coordinator when it has come. What a coordinator has given out it
    has stored before, so whoever comes after it knows.

    * **GenerationNeverBack**: after a generation was given its assignments, no earlier one begins,
      nor this one with other members.
    * **FormerGeneration**: and no member of an earlier one commits.
    * **SessionsEnd**: nor one that was silent for longer than its session while its coordinator ran
      on.
    """

    def __init__(self, observer: Observer, fail: Callable[[BaseException], None]) -> None:
        self._observer = observer
        self._fail = fail
        self._groups: dict[tuple[str, int], _Group] = {}
        """Each life of each."""
        self._heard: dict[tuple[str, str], _Heard] = {}

    def before(self, group: str, coordinator: int, member: str = "") -> Before:
        """To be asked for before ``coordinator`` is asked for anything."""
        home = self._home(group)
        epoch = None if home is None else self._observer.epoch_led_by(coordinator, home)
        heard = self._heard.pop((group, member), None)
        ended = self._observer.group_ends[group]
        return Before(self._of(group).given, coordinator, epoch, ended, heard)

    def joined(self, group: str, generation: int, members: frozenset[str], before: Before) -> None:
        """A member is in ``generation``. ``members`` are all of it, where it leads them, else
        none."""
        known = self._of(group).members
        if self._is_judged(group, before):
            self._require(
                generation >= before.given,
                "GenerationNeverBack",
                f"group {group}: generation {generation} begins after {before.given}",
            )
            former = known.get(generation, members) if generation == before.given else members
            self._require(
                not members or former == members,
                "GenerationNeverBack",
                f"group {group}: generation {generation} had {sorted(former)}, "
                f"and begins again with {sorted(members)}",
            )
        if members:
            known[generation] = members

    def synced(self, group: str, generation: int) -> None:
        """A member was given what it is to read."""
        known = self._of(group)
        known.given = max(known.given, generation)

    def committed(self, group: str, generation: int, before: Before) -> None:
        """A commit in ``generation`` was taken."""
        self._require(
            generation >= before.given or not self._is_judged(group, before),
            "FormerGeneration",
            f"group {group}: generation {generation} commits, {before.given} had begun",
        )

    def heard(
        self,
        group: str,
        member: str,
        before: Before,
        *,
        session_s: float,
        asked_at: float,
        answered_at: float,
    ) -> None:
        """A member's word was taken, which it has sent at ``asked_at``."""
        home = self._home(group)
        if home is None:
            return
        by, last = self._observer.hosted(before.coordinator, home), before.heard
        if last is not None and last.by is by and last.epoch == before.epoch:
            ran_on = self._observer.held_at.get(before.coordinator, -1.0) < last.at
            self._require(
                asked_at <= last.at + session_s + TICKS_S
                or not ran_on
                or not self._is_judged(group, before),
                "SessionsEnd",
                f"group {group}: broker {before.coordinator} takes {member} for a member, of whom "
                f"it has not heard for {asked_at - last.at:.1f} s",
            )
        self._heard[group, member] = _Heard(answered_at, by, before.epoch)

    def _of(self, group: str) -> _Group:
        life = group, self._observer.group_ends[group]
        return self._groups.setdefault(life, _Group())

    def _home(self, group: str) -> TopicPartition | None:
        topic = self._observer.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return TopicPartition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))

    def _is_judged(self, group: str, before: Before) -> bool:
        """Not where some of ``__consumer_offsets`` was lost as it may be, nor the word of one that
        was deposed, nor where nothing was left of the group meanwhile: it begins anew."""
        home = self._home(group)
        partition = None if home is None else self._observer.find(home)
        if home is None or partition is None or before.epoch is None:
            return False
        if before.ended != self._observer.group_ends[group]:
            return False
        leads_on = self._observer.epoch_led_by(before.coordinator, home) == before.epoch
        return leads_on and partition.checks_data and not partition.unpromised

    def _require(self, condition: bool, invariant: str, what: str) -> None:
        if not condition:
            self._fail(Violation(invariant, what))
