"""**DoneIsDropped**: what a controller has carried out it takes out of
``/admin/reassign_partitions``, whoever adds to that meanwhile.

Left there it would be obeyed again by the next controller, and the partition go back to where it
was moved to once. Somebody would have to add to it between a read and a write: so each controller
that drops something is asked what it would leave if somebody had.
"""

from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any, Final

from kazoo.exceptions import BadVersionError

from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk, Tenure
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.loop.at_once import at_once
from simulation.violation import Violation

Drop = Callable[[ControllerZk, Tenure, Iterable[TopicPartition]], Coroutine[Any, Any, None]]
OTHER: Final = TopicPartition("another", 0)
TARGET: Final[tuple[BrokerId, ...]] = (BrokerId(1),)


class _Contended(ControllerZk):
    """The node alone, to which somebody adds before the first write."""

    def __init__(self, asked: Iterable[TopicPartition]) -> None:
        self.left = dict.fromkeys(asked, TARGET)
        self._version = 0
        self._session: Any = SimpleNamespace(get=self._get)

    async def _get(self, _path: str) -> Any:
        return znodes.encode_reassignment(self.left), SimpleNamespace(version=self._version)

    async def _fenced(self, _tenure: Tenure, operation: Callable[[Any], None]) -> None:
        if self._version == 0:
            self.left[OTHER], self._version = TARGET, 1
            raise BadVersionError
        operation(SimpleNamespace(set_data=self._set))

    def _set(self, _path: str, data: bytes, version: int) -> None:
        assert version == self._version
        self.left = znodes.decode_reassignment(data)


def check(drop: Drop, tenure: Tenure, done: Iterable[TopicPartition]) -> None:
    """They are to be dropped; raises Violation."""
    node = _Contended(done)
    at_once(drop(node, tenure, done))
    if node.left.keys() != {OTHER}:
        what = f"the order to move {sorted(map(str, node.left.keys() - {OTHER}))}"
        raise Violation("DoneIsDropped", f"{what} would stay if somebody added another one")
