"""Property tests repeat exactly: their examples come from the test, not from chance.

``HYPOTHESIS_PROFILE=random`` looks for new ones; what it finds it prints, to be replayed. Nor do
they depend on how fast this machine is: by default an example that takes 200 ms has failed.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from ackproof import plugins
from tests.support.clusters.bundled import logs_of_those_that_run
from tests.support.clusters.zookeeper import end_shared_zookeeper
from tests.support.processes import browser

# What is installed beside the project is not what is tested; subprocesses inherit it.
os.environ.setdefault(plugins.SWITCH, "off")

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", patient, derandomize=True)
settings.register_profile("random", patient, derandomize=False)
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
    path = browser.program()
    if path is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    with browser.eyes(path) as looking:
        yield looking


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What brokers said is all that is left of what went wrong on another machine."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections += logs_of_those_that_run()
    return report


def pytest_sessionfinish() -> None:
    end_shared_zookeeper()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole campaigns first: they are the longest, and one of them alone would be what everybody
    waits for at the end."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


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
