"""Limits on the resources of brokers in pods, by the API of Kubernetes."""

from collections.abc import Callable, Mapping

from ackproof.infra.api.capabilities import LimitedResource, NotCounted
from ackproof.infra.api.interface import InfraError, PodRefusal
from ackproof.infra.backends.kubernetes import cpu_limits
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod
from ackproof.infra.backends.kubernetes.cpu_limits import Throttling
from ackproof.infra.systems.external.journal import Journal


class PodLimits:
    """An ``infra.api.capabilities.ResourceLimits`` on the container of a broker in a pod.

    Args:
        run: The name of the run, by which the pod is marked.
        journal: Returns the journal that is written before the pod is changed.
    """

    def __init__(self, pod: BrokerPod, run: str, journal: Callable[[], Journal]) -> None:
        self._pod, self._run, self._journal = pod, run, journal
        self._before: Throttling | str = "nothing was counted before the limit"
        """The counters before the limit, or the reason why they could not be read."""

    def limit(self, what: LimitedResource, amount: int) -> None:
        """See the protocol. Raises PodRefusal if the pod cannot be limited so, and is as before."""
        if what is not LimitedResource.CPU:
            raise InfraError(f"{self._pod}: a resize cannot limit its {what}")
        try:
            self._before = cpu_limits.throttling(self._pod)
        except NotCounted as reason:
            self._before = str(reason)
        self._journal().limited(self._pod.broker, self._run)
        try:
            cpu_limits.limit(self._pod, amount, self._run)
        except PodRefusal:
            self._journal().lifted(self._pod.broker)
            raise

    def lift(self, what: LimitedResource) -> None:
        if what is LimitedResource.CPU:
            cpu_limits.lift(self._pod, self._run)
            self._journal().lifted(self._pod.broker)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        if what is not LimitedResource.CPU or not cpu_limits.is_limited(self._pod, self._run):
            return {}
        if isinstance(self._before, str):
            raise NotCounted(self._before)
        now = cpu_limits.throttling(self._pod)
        # A container that was started again has counted from 0.
        same = now.container == self._before.container
        periods, waited = (self._before.periods, self._before.waited_us) if same else (0, 0)
        return {"throttled": now.periods - periods, "throttled_us": now.waited_us - waited}
