"""The runs of the cases on both clusters in turn. Only ratios are kept.

Both clusters run all the time, and one is idle except for heartbeats while the other is measured.
Each repetition measures both, one right after the other, and their order changes each time. A
machine that becomes slower or busier then favours neither. A ratio always compares one such pair.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.speed.cases import Case, Figures, Sizes, cases, start_up, warm_up
from benchmarks.speed.clusters import KAFKA, OURS, SUBJECTS, fresh
from tests.support.clusters.bundled import Cluster

START_UP = "command to ready cluster"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ratios:
    """One figure of one case: the bundled broker's value divided by Kafka's, for each
    repetition."""

    case: str
    figure: str
    values: tuple[float, ...]


def measure(repetitions: int, sizes: Sizes, chosen: str, say: Say) -> Iterator[Ratios]:
    """Yield the ratios of every case whose name contains ``chosen``, as they become known.

    Raises:
        KafkaToolFailed: Apache Kafka's jars are missing and cannot be fetched.
        LoadFailed, TimeoutError: A cluster did not respond as expected.
    """
    if chosen in START_UP:
        yield from _start_ups(repetitions, say)
    wanted = [case for case in cases() if chosen in case.name]
    if wanted:
        yield from _on_running(wanted, repetitions, sizes, say)


def _start_ups(repetitions: int, say: Say) -> Iterator[Ratios]:
    def once(subject: str) -> Figures:
        with fresh(subject) as cluster:
            return start_up(cluster)

    once(KAFKA)  # Java's and Python's files are then cached for both
    once(OURS)
    say(START_UP)
    yield from _ratios(START_UP, _by_turns(repetitions, once))


def _on_running(wanted: list[Case], repetitions: int, sizes: Sizes, say: Say) -> Iterator[Ratios]:
    with _both() as clusters:
        say("warm-up")
        for cluster in clusters.values():
            warm_up(cluster, sizes)
        for number, case in enumerate(wanted):
            names = (f"case-{number}-{run}" for run in itertools.count())

            def once(subject: str, case: Case = case, names: Iterator[str] = names) -> Figures:
                return case.measure(clusters[subject], next(names), sizes)

            say(case.name)
            if case.warm_up:
                _by_turns(1, once)
            yield from _ratios(case.name, _by_turns(repetitions, once))


@contextlib.contextmanager
def _both() -> Iterator[dict[str, Cluster]]:
    with contextlib.ExitStack() as closing:
        clusters = {subject: closing.enter_context(fresh(subject)) for subject in SUBJECTS}
        for cluster in clusters.values():  # six starting processes slow each other
            cluster.start()
        yield clusters


def _by_turns(repetitions: int, once: Callable[[str], Figures]) -> list[dict[str, Figures]]:
    order = (OURS, KAFKA)
    pairs = []
    for _ in range(repetitions):
        pairs.append({subject: once(subject) for subject in order})
        order = order[::-1]
    return pairs


def _ratios(case: str, pairs: list[dict[str, Figures]]) -> list[Ratios]:
    return [
        Ratios(case, figure, tuple(pair[OURS][figure] / pair[KAFKA][figure] for pair in pairs))
        for figure in pairs[0][OURS]
        if all(figure in figures for pair in pairs for figures in pair.values())
    ]
