"""A seeded scheduler for :mod:`.coordination_world`: everything that may happen, in any order."""

from collections.abc import Callable

from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId
from tests.support.worlds.coordination_world import T, Violation, World


class Chaos:
    """Steps of one world. ``power``: brokers may lose unsynced records, while another one of the
    ISR is up and has everything, and stays up until the ISR is without the one that lost (more
    than the guarantees cover)."""

    def __init__(self, world: World, *, power: bool = True, moves: bool = True) -> None:
        self.world = world
        self.random = world.random
        self.met: dict[str, int] = {}
        self._power = power
        self._actions: list[tuple[str, int, Callable[[], bool]]] = [
            ("zookeeper answers", 40, self._serve),
            ("a coordinator hears", 40, self._feed),
            ("a client sees more", 20, self._catch_up),
            ("a follower asks", 20, self._ask),
            ("a message arrives", 40, self._deliver),
            ("a record is sent", 8, self._produce),
            ("time passes", 12, self._time),
            ("high watermarks are written", 3, self._checkpoint),
            ("a connection is lost", 3, self._lose_connection),
            ("a message is lost", 2, self._drop),
            ("a session expires", 1, self._expire),
            ("an expiry is noticed", 3, self._notice),
            ("a broker crashes", 1, self._crash),
            ("a broker starts", 4, self._start),
            ("an admin goes on", 10, self._admin),
        ]
        if moves:
            self._actions.append(("a partition is moved", 1, self._move))
        self._names = [name for name, _, _ in self._actions]
        self._weights = [weight for _, weight, _ in self._actions]
        self._by_name = {name: action for name, _, action in self._actions}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            name = self.random.choices(self._names, self._weights)[0]
            if self._by_name[name]():
                self.met[name] = self.met.get(name, 0) + 1

    def heal(self) -> None:
        """Everything works again; then there is a leader, and it has the acknowledged records."""
        world = self.world
        for broker in world.ids:
            if broker not in world.brokers:
                self._revive(broker)
        world.commands.clear()
        world.settle(6_000)
        view = world.view()
        if view.leader is None:
            raise Violation(f"no broker leads: {view}")
        world.check_log(view.leader.broker, T)
        if world.isr() and set(world.isr()) != set(view.moving_to or view.assigned):
            raise Violation(f"the ISR never becomes whole: {view}")
        kept = {broker for broker, tp in world.logs if tp == T}
        if view.reassigned is None and not kept <= set(view.assigned):
            raise Violation(f"{sorted(kept)} keep replicas: {view}")

    # --- actions ---------------------------------------------------------------------------------

    def _broker(self) -> BrokerId | None:
        return self.random.choice(sorted(self.world.brokers)) if self.world.brokers else None

    def _serve(self) -> bool:
        broker = self._broker()
        if broker is None or not self.world.brokers[broker].requests:
            return False
        self.world.brokers[broker].serve_request()
        return True

    def _feed(self) -> bool:
        broker = self._broker()
        if broker is None or not self.world.brokers[broker].inbox:
            return False
        self.world.brokers[broker].feed()
        return True

    def _catch_up(self) -> bool:
        broker = self._broker()
        if broker is None:
            return False
        self.world.brokers[broker].catch_up(self.random.choice((1, 1, 2, 100)))
        return True

    def _ask(self) -> bool:
        broker = self._broker()
        if broker is None:
            return False
        self.world.ask(broker)
        return True

    def _deliver(self) -> bool:
        if not self.world.messages:
            return False
        self.world.deliver(self.random.choice(self.world.messages))
        return True

    def _drop(self) -> bool:
        if not self.world.messages:
            return False
        self.world.messages.remove(self.random.choice(self.world.messages))
        return True

    def _produce(self) -> bool:
        broker = self._broker()
        if broker is None:
            return False
        replica = self.world.brokers[broker].replicas.get(T)
        if replica is None or replica.role is not Role.LEADER:
            return False
        self.world.produce(broker)
        return True

    def _time(self) -> bool:
        self.world.pass_time(self.random.choice((5, 20, 50, 110, 200)))
        return True

    def _checkpoint(self) -> bool:
        broker = self._broker()
        if broker is None:
            return False
        self.world.checkpoint(broker)
        return True

    def _lose_connection(self) -> bool:
        broker = self._broker()
        if broker is None or self.world.brokers[broker].expired:
            return False
        self.world.brokers[broker].lose_connection(self.random.random() < 0.5)
        return True

    def _expire(self) -> bool:
        if not self.world.live_sessions:
            return False
        self.world.expire(self.random.choice(sorted(self.world.live_sessions)))
        return True

    def _notice(self) -> bool:
        broker = self._broker()
        if broker is None or not self.world.brokers[broker].expired:
            return False
        self.world.brokers[broker].notice_expiry()
        return True

    def _crash(self) -> bool:
        broker = self._broker()
        if broker is None or not self._may_crash(broker):
            return False
        lost = self.random.choice((0, 1, 3)) if self._may_lose(broker) else 0
        self.world.crash(broker, lost)
        return True

    def _may_lose(self, broker: BrokerId) -> bool:
        """Return whether the broker may lose its records: another sound ISR member stays a member
        after a reassignment. A reassignment to the broker itself would leave it alone in the ISR.
        """
        return self._power and any(self._is_sound(b) for b in self._staying() if b != broker)

    def _staying(self) -> list[BrokerId]:
        target = self.world.view().moving_to
        return [broker for broker in self.world.isr() if not target or broker in target]

    def _may_crash(self, broker: BrokerId) -> bool:
        others = any(self._is_sound(b) for b in self._staying() if b != broker)
        return others or not self.world.lost - {broker}

    def _is_sound(self, broker: BrokerId) -> bool:
        """Up, and sure of its log."""
        return broker not in self.world.lost and self.world.is_looked_at(broker)

    def _start(self) -> bool:
        down = [broker for broker in self.world.ids if broker not in self.world.brokers]
        if not down:
            return False
        self._revive(self.random.choice(down))
        return True

    def _revive(self, broker: BrokerId) -> None:
        """Most often after its old session is over; sometimes before."""
        sessions = [s for s, owner in self.world.live_sessions.items() if owner == broker]
        self.world.start(broker)
        for session in sessions:
            if self.random.random() < 0.7:
                self.world.expire(session)
            else:
                self.world.lingering.append(session)

    def _admin(self) -> bool:
        for command in list(self.world.commands):
            command.go_on()
        return bool(self.world.commands)

    def _move(self) -> bool:
        world = self.world
        if world.commands or world.view().replicas is None or world.lost:
            return False
        size = self.random.randint(1, len(world.ids))
        target = tuple(self.random.sample(world.ids, size))
        if world.view().reassigned is not None and self.random.random() < 0.3:
            world.command(world.admin.cancel_reassignment(T))
        else:
            world.command(world.admin.reassign(T, target))
        return True
