"""What is counted several times for every record: plain numbers, of which Prometheus' samples are
made when it asks.

Its own counters are for several threads and take a lock; a broker counts in one, its event loop's,
and a record would spend as much in them as in the log.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

C = TypeVar("C")


class Tally:
    """One counter; whoever counts adds to ``value``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Times:
    """One histogram of times in ms, with buckets up to each of ``bounds`` and one above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, milliseconds: float) -> None:
        """Counts one."""
        self.counts[bisect_left(self.bounds, milliseconds)] += 1
        self.sum += milliseconds


class _Labelled(Collector, Generic[C]):
    """Children by the values of their labels."""

    def __init__(
        self,
        name: str,
        what: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        new: Callable[[], C],
    ) -> None:
        self.name: Final = name
        self.what: Final = what
        self.label_names: Final = tuple(labels)
        self._new = new
        self._children: dict[tuple[str, ...], C] = {}
        registry.register(self)

    def labels(self, *values: str) -> C:
        """The child that has these labels, from now on if not before."""
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._new()
        return child

    def remove(self, *values: str) -> None:
        """Forgets a child; harmless if there is none."""
        self._children.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[str, ...], C]]:
        """All of them; may be asked in another thread than the one that counts."""
        yield from self._children.copy().items()


class Tallies(_Labelled[Tally]):
    """A counter with labels."""

    def __init__(
        self, name: str, what: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        super().__init__(name, what, labels, registry, Tally)

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library asks for it."""
        family = CounterMetricFamily(self.name, self.what, labels=self.label_names)
        for values, tally in self.children():
            family.add_metric(values, tally.value)
        yield family


class TimesByLabel(_Labelled[Times]):
    """A histogram with labels."""

    def __init__(
        self,
        name: str,
        what: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        bounds: Sequence[float],
    ) -> None:
        super().__init__(name, what, labels, registry, lambda: Times(bounds))
        self._upper = [*(str(float(bound)) for bound in bounds), "+Inf"]

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library asks for it."""
        family = HistogramMetricFamily(self.name, self.what, labels=self.label_names)
        for values, times in self.children():
            counts = times.counts.copy()
            buckets = [(upper, sum(counts[: n + 1])) for n, upper in enumerate(self._upper)]
            family.add_metric(values, buckets, times.sum)
        yield family
