"""The broker, broken on purpose: what a search must be able to find.

Each mutation swaps one function for a wrong one while it is active. One that is not found is a
hole in the simulation, not a proof of the mutation's harmlessness.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.intent import Intent
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.rules import plan
from ackproof.broker.controller.rules.election import Choice, choose
from ackproof.broker.controller.rules.plan import trusting_if_nobody_else
from ackproof.broker.log.disk.checkpoints import RECOVERY_POINTS, offsets_content
from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.manager import LogManager
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.replication import fetcher
from ackproof.broker.server.replication.fetcher import Fetcher
from ackproof.broker.types import NO_LEADER
from simulation.mutations import replication
from simulation.mutations.coordination import COORDINATION
from simulation.mutations.relapses import RELAPSES
from simulation.mutations.swap import Mutation, Swap


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """With that mutation; None: with none."""
    if name is None:
        yield
        return
    with MUTATIONS[name].active():
        yield


_choose = choose


def _anybody(state: Any, candidates: Any, *, online: Any, **others: Any) -> Choice:
    """The first of the assignment that lives, in the ISR or not."""
    choice = _choose(state, candidates, online=online, **others)
    if choice.leader in (state.leader, NO_LEADER):
        return choice
    leader = next((broker for broker in candidates if broker in online), choice.leader)
    isr = choice.isr if leader in choice.isr else (leader, *choice.isr)
    return Choice(leader, isr)


def _suspects_nobody(_self: Partitions, _tps: Any) -> None:
    """As if a new controller knew of every bounce."""


def _forgets_suspects(intent: Intent, _state: Any) -> Intent:
    """As if the controller knew of every ISR as soon as it is written."""
    return replace(intent, suspects=frozenset())


_trusting = trusting_if_nobody_else


def _waits_for_nobody(
    context: Any, assignment: Any, state: Any, intent: Intent, *, unclean: bool
) -> Intent:
    """As if whoever of the ISR is away had nothing."""
    del unclean
    return _trusting(context, assignment, state, intent, unclean=True)


def _obeys_anybody(self: ControlFence, request: Any, _connection: int) -> ErrorCode:
    self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
    return ErrorCode.none


_ask_epochs = Fetcher._ask_epochs


async def _asks_twice(self: Fetcher, asked: Any) -> None:
    """Does not wait for the answer before it asks again, and takes both."""
    await asyncio.gather(_ask_epochs(self, asked), _ask_epochs(self, asked))


ASKS_TWICE = Swap(Fetcher, "_ask_epochs", _asks_twice)


def _by_name(asked: Any) -> Any:
    """As up to Fetch v12."""
    return {tp: tp for tp in asked}


_replace_checkpoint = LogManager._replace


def _all_is_flushed(self: LogManager, directory: Directory, name: str) -> Any:
    """Recovery points are where logs end."""
    if name != RECOVERY_POINTS:
        return _replace_checkpoint(self, directory, name)
    ends = {tp: log.log_end_offset for tp, log in self._logs.items()}
    return directory.replace_steps(name, offsets_content(ends))


MUTATIONS: dict[str, Mutation] = {
    "acks=all answered at append": Mutation(replication.ANSWERED_AT_APPEND),
    "leader elected outside the ISR": Mutation(Swap(plan, "choose", _anybody)),
    "followers never truncate": Mutation(replication.NO_CUT),
    "bounces forgotten at an election": Mutation(
        Swap(Partitions, "suspect_bounced", _suspects_nobody)
    ),
    "who joined unseen is trusted": Mutation(Swap(plan, "who_may_have_joined", _forgets_suspects)),
    "words of earlier epochs are obeyed": Mutation(replication.EPOCHS_OBEYED),
    "controllers of the past are obeyed": Mutation(Swap(ControlFence, "admit", _obeys_anybody)),
    "neither fence against the past": Mutation(
        Swap(ControlFence, "admit", _obeys_anybody), replication.EPOCHS_OBEYED
    ),
    "who bounced waits for nobody": Mutation(
        Swap(plan, "trusting_if_nobody_else", _waits_for_nobody)
    ),
    "requests of other epochs are served": Mutation(replication.EPOCHS_SERVED),
    "answers of earlier epochs are taken": Mutation(replication.EPOCHS_TAKEN),
    "watermark from the largest log end": Mutation(replication.LARGEST_END),
    "ISR believed before it is written": Mutation(replication.PROPOSED_COUNTS),
    "ISR change in flight ignored": Mutation(replication.COMMITTED_COUNTS),
    "an ISR change of unknown outcome is given up": Mutation(replication.GIVEN_UP),
    "followers join the ISR at once": Mutation(replication.JOINS_AT_ONCE),
    "epoch start ignored when joining": Mutation(replication.JOINS_BY_WATERMARK),
    "nobody is dropped from the ISR": Mutation(replication.DROPS_NOBODY),
    "the ISR is too small for acks=all": Mutation(replication.LETS_ALL_IN, replication.ANSWERS_ALL),
    "the ISR is too small by the time of the answer": Mutation(replication.ANSWERS_ALL),
    "answers of earlier rounds are taken": Mutation(replication.ROUNDS_TAKEN),
    "questions are asked twice": Mutation(ASKS_TWICE),
    "neither fence against earlier rounds": Mutation(ASKS_TWICE, replication.ROUNDS_TAKEN),
    "one round of truncation": Mutation(replication.ONE_ROUND),
    "followers name topics by name": Mutation(Swap(fetcher, "_named", _by_name)),
    "recovery points say that all is flushed": Mutation(
        Swap(LogManager, "_replace", _all_is_flushed)
    ),
    **RELAPSES,
    **COORDINATION,
}
