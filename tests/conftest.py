"""Property tests repeat exactly: their examples come from the test, not from chance.

``HYPOTHESIS_PROFILE=random`` (``make test-random``, each night) tries many more, and others each
time; what it finds it prints, to be replayed. The catalogue of broken brokers (``make mutation``)
is measured with a profile of its own, so that its results do not change with ours. Nor do tests
depend on how fast this machine is: by default an example that takes 200 ms has failed.
"""

import atexit
import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from ackproof import plugins
from tests.support.builders.examples import examples
from tests.support.clusters.bundled import logs_of_those_that_run
from tests.support.clusters.zookeeper import end_shared_zookeeper
from tests.support.processes import browser

_T = TypeVar("_T")

# What is installed beside the project is not what is tested; subprocesses inherit it.
os.environ.setdefault(plugins.SWITCH, "off")

patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(50)
)
settings.register_profile("repeatable", patient, derandomize=True)
settings.register_profile("random", patient, derandomize=False)
settings.register_profile("catalogue", patient, derandomize=True, max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scripts",
        action="store_true",
        help="write the present output of the state machines into testdata/*.txt",
    )


@pytest.fixture
def eyes() -> Iterator[browser.Eyes]:
    """Looks at pages in Chromium."""
    with browser.eyes() as looking:
        yield looking


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the brokers to a failed report: on another machine, nothing else is left of
    the failure."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections += logs_of_those_that_run()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without collecting garbage, which takes a sixth of the time and frees next
    to nothing. Later collections skip what was made here, because it is kept until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # else extensions complain of what they still own
        gc.enable()


def pytest_sessionfinish() -> None:
    end_shared_zookeeper()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with whole campaigns, and mix files that wait with files that compute.

    A file with a cluster of its own mostly waits for it. Were these files side by side, the
    processors would be idle meanwhile, and be fought for later. Campaigns are the longest: at the
    end, everybody would wait for one of them.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    campaigns, clusters, others = [], [], []
    for file in files.values():
        if any(item.get_closest_marker("e2e") for item in file):
            campaigns.append(file)
        elif any(item.get_closest_marker("integration") for item in file):
            clusters.append(file)
        else:
            others.append(file)
    items[:] = [item for file in _mixed([*campaigns, *clusters], others) for item in file]


def _mixed(one: list[_T], another: list[_T]) -> list[_T]:
    """Return all of both lists, each in its order, and each spread evenly over the whole."""
    placed = [(i / len(of), item) for of in (one, another) for i, item in enumerate(of)]
    return [item for _, item in sorted(placed, key=lambda at: at[0])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of ``--dist loadfile``, None for any other distribution."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.processes.scheduling import SparkOnOneWorker

    return SparkOnOneWorker(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the time of a long session went: seconds of all workers, by directory."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.rpartition("/")[0]] += report.duration
    if seconds.total() < _LONG_S:
        return
    terminalreporter.section("seconds by directory")
    for directory, sum_s in seconds.most_common():
        terminalreporter.write_line(f"{sum_s:8.0f} {directory}")


_LONG_S = 600
