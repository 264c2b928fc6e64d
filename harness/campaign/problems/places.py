"""What keeps a campaign's clients from running where it is to run: programs that are not there,
programs that nobody said might be started; and nodes on which nobody would run."""

from collections.abc import Collection, Iterator
from pathlib import Path

from harness.campaign.model.campaign import Campaign
from harness.campaign.model.cells import expand
from harness.campaign.problems.draft import Draft
from history.cell import LIBRDKAFKA, is_program
from infra import client_programs
from infra.documents import Problem
from infra.local.backend import LocalBackend

_FIELD = "cells.client"


def idle_nodes(draft: Draft) -> Iterator[Problem]:
    """That nobody would run on some of the nodes for clients: a fault on one of these would be
    about nothing."""
    if draft.workload is None or draft.cluster is None:
        return
    most, nodes = draft.workload.clients_at_most, draft.cluster.clients
    if nodes > most:
        they = "client" if most == 1 else "clients"
        reason = f"nobody would run on client-{most + 1}: a cell has {most} {they} at the most"
        yield Problem(field="cluster.clients", reason=reason)


def missing_programs(campaign: Campaign, allowed: Collection[Path]) -> Iterator[Problem]:
    """Of each client that its program is not where it is to run. ``allowed``: the programs of the
    user's own that may be started: a campaign file, which may come from anybody, does not decide
    that (as of librdkafka's plugins: :data:`workloads.configuration.RESERVED`)."""
    backend = campaign.cluster.backend
    for client in dict.fromkeys(cell.client for cell in expand(campaign.cells)):
        if client == LIBRDKAFKA:
            continue
        if backend != LocalBackend.name and not client_programs.on_every_backend(client):
            reason = (
                f"the program of {client} is on this machine alone, and not on the nodes of the "
                f"backend {backend}"
            )
            yield Problem(field=_FIELD, reason=reason)
        elif (reason_missing := client_programs.missing(client)) is not None:
            yield Problem(field=_FIELD, reason=reason_missing)
        elif is_program(client) and client_programs.own(client) not in allowed:
            reason = f"it would start {client} with your rights; if that is meant: "
            yield Problem(field=_FIELD, reason=f"{reason}--program {client}")
