"""A cluster of the user's own as a system under test: nothing of it is deployed."""

from dataclasses import dataclass
from typing import NoReturn

from ackproof.infra.interface import InfraError
from ackproof.infra.systems.metadata_quorum import MetadataQuorum
from ackproof.infra.systems.names import EXTERNAL
from ackproof.infra.systems.product import ONLY_CLIENTS, Build, Layout, Product


@dataclass(frozen=True, kw_only=True)
class ExternalBuild(Build):
    """A cluster that is there already. It is made of ``cluster.external`` of the campaign
    (:mod:`infra.systems.external.system`), and not of a layout."""

    def quorum(self, asked: str | None = None) -> MetadataQuorum | None:
        if asked is not None:
            raise ValueError(f"is for systems that are deployed, and {EXTERNAL} is there already")
        return None

    def obstacle(self, backend: str) -> str | None:
        told = f"nothing of {EXTERNAL} is deployed: its clients are on the backend {ONLY_CLIENTS}"
        return None if backend == ONLY_CLIENTS else f"{told}, not on {backend}"

    def configured(self, layout: Layout) -> NoReturn:  # noqa: ARG002
        raise InfraError(f"{EXTERNAL} is not deployed: see infra.systems.external.system")


def _build(version: str | None) -> ExternalBuild:
    del version  # it has none
    return ExternalBuild(
        text=EXTERNAL,
        quorums=(),
        needs="a cluster of your own",
        # Topics under a prefix can be removed; __transaction_state keeps what was written into it.
        without_transactions="transactions are not tried on a cluster of your own",
    )


EXTERNAL_CLUSTER = Product(
    name=EXTERNAL,
    summary="a cluster of your own, which is there already (docs/your-cluster.md)",
    build=_build,
    forms=(EXTERNAL,),
)
