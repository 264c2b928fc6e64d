"""Resources with our label in the Docker Engine, and in the cluster of the kubeconfig."""

from collections.abc import Collection

from ackproof.infra.backends.docker.engine import OWNER, connected, owner


def owned_things(*, dead: bool = False, by: Collection[int] | None = None) -> list[str]:
    """Names of containers and networks; with ``dead``, only those whose owner is dead; those that
    these processes have made, where they are named."""
    ours = {"label": OWNER}
    with connected() as client:
        # Others may be removed between being listed and being looked at.
        containers = client.containers.list(True, filters=ours, ignore_removed=True)
        found = [
            *((container.name, container.labels) for container in containers),
            *((n.name, n.attrs["Labels"]) for n in client.networks.list(filters=ours)),
        ]
    owners = [(name, owner(labels)) for name, labels in found]
    return sorted(
        name
        for name, made in owners
        if not (dead and made.lives()) and (by is None or made.pid in by)
    )


def dead_namespaces() -> list[str]:
    """Names of the namespaces whose owner was a process of this machine and is dead."""
    from ackproof.infra.backends.kubernetes.cleanup import leftovers
    from ackproof.infra.backends.kubernetes.cluster import connected as to_cluster

    with to_cluster() as user:
        return sorted(name for name, holder in leftovers(user) if holder is None)
