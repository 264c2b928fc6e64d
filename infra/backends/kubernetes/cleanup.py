"""Removal of the namespaces that dead runs left in a cluster, found by label and annotation."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.cluster import (
    ANSWERS_WITHIN_S,
    Refusal,
    answered,
    connected,
    delete,
)
from ackproof.infra.backends.kubernetes.manifests import ENDED, MACHINE, OWNER, POD, machine
from ackproof.infra.machine.identity import ProcessIdentity

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


def clean(report: Callable[[str], None], *, everything: bool = False) -> bool:
    """Remove the namespaces whose owner was a process of this machine and is dead.

    Args:
        report: Gets a line for each namespace that was removed, or is left, and why.
        everything: Remove those of other machines, too, and those of living runs.

    Return whether everything that must go is gone. Raises InfraError without a cluster.
    """
    clean_namespaces = []
    with connected() as user:
        for name, holder in leftovers(user):
            if not everything and holder is not None:
                report(f"namespace {name}: {holder}, and was not changed (--all removes it)")
                continue
            try:
                delete(user, name)
                report(f"namespace {name}: removed")
                clean_namespaces.append(True)
            except InfraError as error:
                report(str(error))
                clean_namespaces.append(False)
    return all(clean_namespaces)


def leftovers(user: "ApiClient") -> list[tuple[str, str | None]]:
    """Return the name of each namespace of a run, and who may still use it, or None if its owner is
    known to be dead. Raises InfraError."""
    from kubernetes.client import CoreV1Api

    with answered("cannot list namespaces"):
        found = CoreV1Api(user).list_namespace(
            label_selector=MACHINE, _request_timeout=ANSWERS_WITHIN_S
        )
    return [(one.metadata.name, _holder(user, one)) for one in found.items]


def clean_own(report: Callable[[str], None]) -> bool:
    """Remove what dead runs of this machine left, without a word about the runs of others."""
    kept = "was not changed"
    return clean(lambda line: None if kept in line else report(line))


def _holder(user: "ApiClient", namespace: Any) -> str | None:
    where = namespace.metadata.labels[MACHINE]
    notes = namespace.metadata.annotations or {}
    if where != machine():
        elsewhere = f"it belongs to a run on {where}"
        return None if POD in notes and _has_ended(user, notes[POD]) else elsewhere
    try:
        owner = ProcessIdentity(**json.loads(notes[OWNER]))
    except (ValueError, TypeError, KeyError):
        return None  # then it cannot be known to be alive
    return f"its run is active (process {owner.pid})" if owner.lives() else None


def _has_ended(user: "ApiClient", pod: str) -> bool:
    """Return whether a pod, ``NAMESPACE/NAME``, is known to have ended, or to be gone."""
    from kubernetes.client import CoreV1Api

    where, _, name = pod.partition("/")
    try:
        with answered():
            found = CoreV1Api(user).read_namespaced_pod(
                name, where, _request_timeout=ANSWERS_WITHIN_S
            )
    except Refusal as refusal:
        return refusal.status == 404
    return found.status.phase in ENDED
