"""Problems that keep a campaign from writing in transactions, or from reading them as it asks."""

from collections.abc import Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.harness.campaign import clients
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import LIBRDKAFKA, SYNC, Cell
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS, client_of
from ackproof.infra.systems.product import BUNDLED
from ackproof.workloads import WORKLOADS
from ackproof.workloads.configuration import PARTITIONER, producer_config
from ackproof.workloads.interface import Load
from ackproof.workloads.spec import SpecificationError

_SYSTEM = "cluster.system"
_OFFERS = "kafka:4.4.0 does"


def own_transaction_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem if the system has no transactions. The file is read as it is written, because
    the properties of another system are most likely wrong, too."""
    kind = mapping(content, "workload").get("kind")
    if isinstance(kind, str) and kind in WORKLOADS and WORKLOADS[kind].transactional:
        yield from _system_problems(mapping(content, "cluster").get("system", BUNDLED))


def transaction_problems(draft: Draft) -> Iterator[Problem]:
    """Yield every contradiction between the workload, its system and its cells."""
    spec = draft.workload
    if spec is None:
        return
    if not spec.is_transactional:
        yield from _without(draft)
        return
    if spec.groups:
        reason = "the workload transactions has transformers for groups: leave out workload.groups"
        yield Problem(field="workload.groups", reason=reason)
    if spec.share_groups:
        reason = "the workload transactions has no share groups"
        yield Problem(field="workload.share.groups", reason=reason)
    yield from _of_produce_alone(spec)
    yield from _replacement_problems(draft)
    wrong: dict[tuple[str, str], list[str]] = {}
    for cell in expand(draft.cells) if draft.cells is not None else ():
        for field, reason in _cell_problems(cell, spec.load_of(cell)).items():
            wrong.setdefault((field, reason), []).append(cell.name)
    for (field, reason), names in wrong.items():
        yield Problem(field=field, reason=f"{reason} (in {', '.join(names)})")


def _of_produce_alone(spec: WorkloadSpec) -> Iterator[Problem]:
    """Yield a problem for each way of sending that transactions do not support."""
    said = {
        "rate": spec.flat_out,
        "records": spec.records is not None,
        "keys": spec.keys is not None,
        "record.bytes": len(set(spec.record_bytes)) > 1,
    }
    for key, is_said in said.items():
        if is_said:
            reason = "the workload transactions sends at a rate, records of one size without keys"
            yield Problem(field=f"workload.{key}", reason=reason)


def _replacement_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each replacement of a crashed client. A transformer starts its next
    session instead."""
    for index, entry in enumerate(draft.faults or ()):
        if isinstance(entry, FaultEntry) and entry.parameters.get("comes_back"):
            reason = "the workload transactions does not replace crashed clients"
            yield Problem(field=f"faults[{index}].parameters.comes_back", reason=reason)


def _without(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each setting that only transactions have."""
    if draft.workload is not None and draft.workload.transactions is not None:
        reason = "applies only to kind: transactions; this one is of kind " + draft.workload.kind
        yield Problem(field="workload.transactions", reason=reason)
    cells = expand(draft.cells) if draft.cells is not None else ()
    if any(cell.reads_committed for cell in cells):
        reason = "no transactions are sent: it applies only to workload.kind: transactions"
        yield Problem(field="cells.isolation.level", reason=reason)


def _system_problems(system: object) -> Iterator[Problem]:
    try:
        reason = systems.parse(str(system)).without_transactions
    except ValueError:
        return  # this is a problem of its own
    if reason:
        yield Problem(field=_SYSTEM, reason=f"{reason}; {_OFFERS}")


def _cell_problems(cell: Cell, load: Load) -> Mapping[str, str]:
    """Return the reasons why ``cell`` could have no transactional clients, by field."""
    if cell.acks != "all":
        return {"cells.acks": "transactions need acks: all"}
    if not cell.enable_idempotence:
        return {"cells.enable.idempotence": "transactions need enable.idempotence: true"}
    assert load.transactions is not None
    if cell.producer_type == SYNC:
        return {"cells.producer.type": "a transaction's records are sent together: leave it out"}
    if PARTITIONER in producer_config(cell):
        reason = "a transaction's records are sent to stated partitions: leave it out"
        return {f"cells.producer.{PARTITIONER}": reason}
    if cell.client != LIBRDKAFKA:
        if not client_of(cell.client).transactions:
            able = [name for name, client in CLIENTS.items() if client.transactions]
            reason = f"the program of {cell.client} does not support transactions; those of "
            reason += f"{' and '.join(able)} do"
            return {"cells.client": reason}
        if load.transactions.transformers:
            reason = f"only {LIBRDKAFKA} supports transformers, because it reads for them: set 0"
            return {"workload.transactions.transformers": reason}
    try:
        clients.try_out_transactional(cell, load.transactions)
    except SpecificationError as refusal:
        return {"cells": str(refusal)}
    return {}
