"""What there is in the Docker Engine that is labelled as ours."""

from infra.docker.engine import OWNER, connected, owner


def owned_things(*, dead: bool = False) -> list[str]:
    """Names of containers and networks; with ``dead``, only those whose owner is dead."""
    with connected() as client:
        found = [
            *((c.name, c.labels) for c in client.containers.list(True, filters={"label": OWNER})),
            *((n.name, n.attrs["Labels"]) for n in client.networks.list(filters={"label": OWNER})),
        ]
    return sorted(name for name, labels in found if not (dead and owner(labels).lives()))
