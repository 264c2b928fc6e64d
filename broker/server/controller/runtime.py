"""The competition to become controller, and the work of the controller.

One task works through one queue. Events are thus processed one after the other, whatever the order
in which ZooKeeper's watches, brokers' answers and requests arrive. A watch only says that something
changed, and the queue gets the job to read it again. A job that fails is logged and given up, as in
Kafka, and the next one follows. The cause may be a znode that cannot be parsed. A controller that
cannot even begin its term resigns.

When the session expires, the term ends at once, before anything else is done, because another
broker may be controller already. Pending work of the ended term is fenced in ZooKeeper (by its
session and its controller epoch) and at the brokers (by the controller epoch in every request).
With the next session, the broker competes again once it is registered.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller import events
from ackproof.broker.controller.context import Context
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server.controller.term import ASKED, OVER, WATCHED, Term, log_tenure
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerMoved, ControllerZk, Tenure
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.server.zk.znodes import MalformedNode
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

logger = logging.getLogger(__name__)

FIRST_REBALANCE_S = 5
STEP_DOWN_S = 1

Job = Callable[[asyncio.TaskGroup], Awaitable[None]]
"""A job, which gets the group that owns its tasks."""


class ControllerRuntime:
    """The controller of this broker, active or not. ``run`` runs it.

    ``registered`` returns when the broker is registered in the current session. A new controller
    must not find its own broker missing.
    """

    def __init__(
        self,
        config: BrokerConfig,
        zk: KafkaZk,
        registered: Callable[[], Awaitable[None]],
        probe: Probe = NO_PROBE,
    ) -> None:
        self._config = config
        self._zk = zk
        self._elections = ControllerZk(zk)
        self._jobs: asyncio.Queue[tuple[Term | None, str, Job]] = asyncio.Queue()
        """The jobs with their term (None: in no term) and their name for the log."""
        self._term: Term | None = None
        self._ended: list[Term] = []
        self._tokens = itertools.count()
        self._registered = registered
        self._probe = probe
        self._questions: dict[int, asyncio.Future[Any]] = {}
        """The pending answers by token, None when the term ends first."""
        zk.on_session_expired(self._session_expired)
        zk.on_session_established(self._contest_soon)

    @property
    def waiting(self) -> int:
        """The number of pending answers."""
        return len(self._questions)

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

    @property
    def context(self) -> Context | None:
        """The state of the controller, for others to read; None if this broker is not the
        controller."""
        return None if self._term is None else self._term.context

    async def run(self) -> None:
        """Compete, work, and continue until cancelled.

        Raises:
            ZkClosed: ZooKeeper's client was closed first.
        """
        self._contest_soon()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rebalance_forever(), name="leader rebalance")
            try:
                await self._work(group)
            finally:
                self._resign()
                await self._close_ended()

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Move leaderships away from a broker that is about to stop, and answer when that is done.

        NOT_CONTROLLER when this broker is not the controller, or ceases to be before it is done.
        """
        outcome: events.AnswerShutdown | None = await self._ask(
            partial(
                events.ControlledShutdownAsked,
                broker=request.broker_id,
                broker_epoch=request.broker_epoch,
            )
        )
        return ControlledShutdownResponse(
            error_code=ErrorCode.not_controller if outcome is None else outcome.error,
            remaining_partitions=tuple(map(_remaining, outcome.remaining)) if outcome else (),
        )

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes | None:
        """Elect preferred leaders, or unclean ones for partitions without a leader.

        ``partitions`` is None for all. Return the outcomes when they are written, or None when this
        broker is not the controller.
        """
        asked = partial(events.ElectionAsked, partitions=partitions, unclean=unclean)
        answer: events.Answer | None = await self._ask(asked)
        return None if answer is None else answer.outcomes

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> Outcomes | None:
        """Begin to move partitions. A target of None cancels a reassignment.

        Return what was begun, or None when this broker is not the controller.
        """
        asked = partial(events.ReassignmentsAltered, targets=targets)
        answer: events.Answer | None = await self._ask(asked)
        return None if answer is None else answer.outcomes

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """Take over changed settings of these topics, or with None possibly of all."""
        term = self._term
        if term is not None:
            self._jobs.put_nowait((term, "settings", lambda _group: term.configs_changed(topics)))

    async def _ask(self, question: Callable[..., events.Event]) -> Any:
        """Return the answer to the event that ``question`` creates from a token, None if not the
        controller."""
        if self._term is None:
            return None
        token = next(self._tokens)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[token] = answer
        self._enqueue(question(token=token))
        try:
            return await answer
        finally:
            self._questions.pop(token, None)

    # --- the queue --------------------------------------------------------------------------

    async def _work(self, group: asyncio.TaskGroup) -> None:
        """Do one job after the other. Jobs of a term that has ended are dropped."""
        while True:
            term, what, job = await self._jobs.get()
            if term is None or term is self._term:
                await self._do(what, job, group)
            await self._close_ended()

    async def _do(self, what: str, job: Job, group: asyncio.TaskGroup) -> None:
        """Do a job. Its failure does not end the broker: the next controller would meet the same
        error, and the one after it, until there is no broker left."""
        try:
            await job(group)
        except SessionExpired as error:
            logger.warning("controller: %s", error)
            self._resign()
        except ControllerMoved as error:
            logger.warning("controller: %s", error)
            self._resign()
            self._contest_soon()
        except MalformedNode as error:
            logger.error("controller: %s", error)
        except ZkClosed:
            raise
        except Exception:
            logger.exception("controller: %s failed", what)

    def _enqueue(self, event: events.Event) -> None:
        term = self._term
        if term is not None:
            self._jobs.put_nowait((term, type(event).__name__, lambda _group: term.feed(event)))

    async def _rebalance_forever(self) -> None:
        """Begin the check of ``auto.leader.rebalance.enable`` at its interval."""
        config = self._config
        pause_s = FIRST_REBALANCE_S
        while config.auto_leader_rebalance_enable:
            await asyncio.sleep(pause_s)
            percentage = config.leader_imbalance_per_broker_percentage
            self._enqueue(events.RebalanceLeaders(imbalance_percentage=percentage))
            pause_s = config.leader_imbalance_check_interval_seconds

    # --- the office -------------------------------------------------------------------------

    def _contest_soon(self) -> None:
        self._jobs.put_nowait((None, "the contest for the office", self._contest))

    async def _contest(self, group: asyncio.TaskGroup) -> None:
        """Read which broker is the controller, and become it if there is none."""
        await self._registered()
        holder = await self._zk.controller(self._contest_soon)
        if holder is not None and (holder != self._config.id or self._term is not None):
            if holder != self._config.id:
                self._resign()
            return
        self._resign()
        tenure = None if holder is not None else await self._elections.elect(self._config.id)
        if tenure is None:
            logger.info("broker %d is not the controller", self._config.id)
            return
        logger.info("broker %d is the controller, epoch %d", self._config.id, tenure.epoch)
        term = Term(
            self._config,
            self._zk,
            tenure,
            group.create_task,
            self._enqueue,
            self._answer,
            self._probe,
        )
        self._term = term
        looks = {path: partial(self._look, term, path) for path in WATCHED}
        try:
            await term.begin(looks)
        except OVER:
            raise
        except Exception:
            logger.exception("controller: taking office in epoch %d failed", tenure.epoch)
            await self._step_down(tenure)
            return
        for path in ASKED:
            looks[path]()

    async def _step_down(self, tenure: Tenure) -> None:
        """Resign. A controller that knows nothing of the cluster would keep every other broker from
        becoming it. There is a delay, because this broker may be the next to win."""
        self._resign()
        await asyncio.sleep(STEP_DOWN_S)
        await self._elections.delete(tenure, znodes.CONTROLLER)
        self._contest_soon()

    def _look(self, term: Term, path: str) -> None:
        """Queue a read of a path whose watch fired, once for any number of watches."""
        if path not in term.looking:
            term.looking.add(path)
            self._jobs.put_nowait((term, path, lambda _group: term.look(path)))

    def _session_expired(self) -> None:
        if self._term is not None:
            logger.info(
                "[SessionExpirationListener on %d], ZK expired; shut down all controller "
                "components and try to re-elect",
                self._config.id,
            )
        self._resign()

    def _resign(self) -> None:
        """End the term, at once."""
        term, self._term = self._term, None
        if term is None:
            return
        term.stop()
        self._ended.append(term)
        log_tenure("resigned", self._config.id, term.tenure.epoch)
        for answer in self._questions.values():
            if not answer.done():
                answer.set_result(None)

    async def _close_ended(self) -> None:
        while self._ended:
            await self._ended.pop().close()

    def _answer(self, effect: events.AnswerShutdown | events.Answer | events.Failed) -> None:
        answer = self._questions.get(effect.token) if effect.token is not None else None
        if answer is None or answer.done():
            return
        if isinstance(effect, events.Failed):
            answer.set_exception(effect.error)
        else:
            answer.set_result(effect)


def _remaining(tp: TopicPartition) -> RemainingPartition:
    return RemainingPartition(topic_name=tp.topic, partition_index=tp.partition)
