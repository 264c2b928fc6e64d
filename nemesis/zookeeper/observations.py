"""What ZooKeeper says of registrations whose session a fault ended, or replaced by one of ours."""

from ackproof.infra.api.interface import ClusterView
from ackproof.nemesis.interface import Effect, Injection, Look
from ackproof.nemesis.proofs.looking import Seen, of_brokers, sessions_before, struck


def over(injection: Injection, kind: type[Effect]) -> Look:
    """The sessions by which brokers were registered when this fault struck them hold their
    registrations no more: ephemeral znodes go with their session, in one transaction. Of a broker
    whose session was not known nothing is shown."""
    before = sessions_before(injection)

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder is not None and hex(holder) == before[broker]:
            return False, f"goes on, {hex(holder)}"
        return True, before[broker]

    known = [name for name in _done(injection, kind) if injection.cluster.server(name).id in before]
    return of_brokers(injection, "session over", known, seen)


def occupied(injection: Injection, kind: type[Effect]) -> Look:
    """A session of the harness's holds the registrations that this fault occupied, as ZooKeeper
    tells of their znodes."""

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder is None:
            return False, "not registered"
        ours = holder in injection.cluster.system.ensemble.ours
        return ours, f"by {hex(holder)}, " + ("ours" if ours else "the broker's")

    return of_brokers(injection, "registered by another session", _done(injection, kind), seen)


def _done(injection: Injection, kind: type[Effect]) -> list[str]:
    """Those on whom such an effect of the fault had one."""
    done, planned = struck(injection, kind)
    return [name for name in planned if name in done]
