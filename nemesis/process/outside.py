"""Observations of brokers that were not deployed here.

It is seen whether they accept connections, whether they answer, and whether the cluster counts them
in. No observation here shows how a process ended.
"""

from collections.abc import Iterator

from ackproof.nemesis import proofs
from ackproof.nemesis.effects import ProcessKill, ProcessStop, Terminate
from ackproof.nemesis.interface import Cluster, Effect, Injection, Look, Observation
from ackproof.nemesis.proofs import Seen, observe, of_brokers, of_process, struck, targeted, unless

_DOWN = "was already down"


def from_outside(injection: Injection) -> bool:
    """Return whether the servers that the fault strikes are seen from outside alone."""
    cluster = injection.cluster
    return any(cluster.server(name).distant is not None for name in injection.target.servers)


def bitten(injection: Injection, *, in_full: bool) -> Iterator[Look]:
    """Yield the looks that show the fault.

    ``in_full`` says whether it is held for so long that the cluster counts the brokers out.
    """
    kinds = {type(effect) for effect in injection.plan.effects}
    for kind in sorted(kinds & {ProcessKill, Terminate}, key=lambda one: one.__name__):
        yield _refuses(injection, kind)
    if ProcessStop in kinds:
        yield _silent(injection)
    if in_full:
        yield proofs.expired(injection, targeted(injection, injection.cluster.members.brokers))


def healed(injection: Injection) -> Iterator[Look]:
    """Yield the looks that show that the brokers answer and that the cluster counts them in.

    The brokers are asked themselves. No look shows which process a registration belongs to, but a
    broker without one would not answer.
    """
    brokers = targeted(injection, injection.cluster.members.brokers)
    yield lambda: observe(
        "answers",
        brokers,
        lambda name: _answers(injection.cluster, name),
        lambda name: of_process(injection, name),
    )
    yield of_brokers(
        injection, "counted in", brokers, lambda view, n: (n in view.brokers, n in view.brokers)
    )


def _refuses(injection: Injection, kind: type[Effect]) -> Look:
    def one(name: str) -> Seen:
        distant = injection.cluster.server(name).distant
        accepts = distant is None or distant.accepts()
        return not accepts, "accepts" if accepts else "refuses"

    def look() -> Observation:
        done, planned = struck(injection, kind)
        return observe("refuses connections", planned, one, unless(done, _DOWN))

    return look


def _silent(injection: Injection) -> Look:
    def one(name: str) -> Seen:
        answers, word = _answers(injection.cluster, name)
        return not answers, word

    def look() -> Observation:
        done, planned = struck(injection, ProcessStop)
        return observe("does not answer", planned, one, unless(done, _DOWN))

    return look


def _answers(cluster: Cluster, name: str) -> Seen:
    distant = cluster.server(name).distant
    answers = distant is not None and distant.answers()
    return answers, "answers" if answers else "silent"
