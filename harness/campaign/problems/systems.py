"""What is wrong with what a campaign puts to the test: its name, and who is to keep its
metadata."""

from collections.abc import Iterator, Mapping

from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.infra.documents import Problem
from ackproof.infra.systems import names, parse
from ackproof.infra.systems.metadata_quorum import MetadataQuorum

_SYSTEM, _QUORUM = "cluster.system", "cluster.metadata.quorum"


def own_system_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Of the two by themselves, and together."""
    written = mapping(content, "cluster")
    system, asked = written.get("system", names.BUNDLED), written.get("metadata.quorum")
    if not isinstance(system, str):
        return  # which the model refuses
    try:
        build = parse(system)
    except ValueError as refusal:
        yield Problem(field=_SYSTEM, reason=str(refusal))
        return
    try:
        if asked in list(MetadataQuorum):  # else the model refuses it
            build.quorum(str(asked))
    except ValueError as refusal:
        yield Problem(field=_QUORUM, reason=str(refusal))


def system_problems(draft: Draft) -> Iterator[Problem]:
    """Between the numbers of its servers."""
    points = () if draft.cluster is None else draft.cluster.points()
    reasons = (too_few_brokers(cluster) for cluster, _ in points)
    for reason in [reason for reason in reasons if reason is not None][:1]:
        yield Problem(field="cluster.zookeepers", reason=reason)


def too_few_brokers(cluster: ClusterSpec) -> str | None:
    """Why its brokers cannot be controllers, too, where they are to be and cannot."""
    if cluster.quorum is not MetadataQuorum.COMBINED_KRAFT:
        return None
    if cluster.zookeepers <= cluster.brokers:
        return None
    return (
        f"with combined-kraft the first brokers are the controllers: for {cluster.zookeepers} it "
        f"takes as many brokers, and there are {cluster.brokers}"
    )
