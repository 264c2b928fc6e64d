"""The names of the systems that are always there (:data:`infra.systems.SYSTEMS` has all)."""

BUNDLED = "bundled"
KAFKA = "kafka"
EXTERNAL = "external"


def external(name: str) -> bool:
    """Return whether the system of that name is a cluster of the user's own, not deployed here."""
    return name == EXTERNAL
