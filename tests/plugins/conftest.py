import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.infra import systems
from ackproof.infra.clients.programs import CLIENTS
from ackproof.plugins import SWITCH
from ackproof.workloads import WORKLOADS
from tests.support.builders.installations import Install, write_plugin


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install distributions for this process, until the test is over."""
    site, before = tmp_path / "site", set(sys.modules)
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv(SWITCH, "on")
    _look_again()

    def write(name: str, source: str, **how: str) -> None:
        write_plugin(site, name, source, **how)

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
            del sys.modules[name]
    _look_again()


def _look_again() -> None:
    """Forget the plug-ins that the tables of this process have found."""
    for table in (systems.SYSTEMS, CLIENTS, WORKLOADS, CATALOGUE):
        table.look_again()
    systems.known.cache_clear()
