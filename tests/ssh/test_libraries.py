"""Libraries for hosts: their discovery and its cache. No host is needed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.infra.backends.ssh import bundle
from ackproof.infra.backends.ssh.libraries import foreign_modules


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ackproof" / "imports.json"


def test_imported_modules_are_cached_for_the_same_sources(kept: Path) -> None:
    found = foreign_modules()
    assert "ackproof" not in found
    assert {"kazoo", "kio", "confluent_kafka", "pyarrow"} <= set(found)
    assert not {"broker", "history", "json", "asyncio"} & set(found)
    name = bundle.sources().name
    assert json.loads(kept.read_text()) == {name: found}
    kept.write_text(json.dumps({name: ["kazoo"]}))
    assert foreign_modules() == ["kazoo"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: kept.write_text('{"sources-of-yesterday": ["kazoo"]}'),
        lambda kept: kept.write_text("null"),
        lambda kept: kept.write_text("{"),
        lambda kept: kept.mkdir(),
    ],
)
def test_foreign_or_damaged_cache_is_rebuilt(kept: Path, damage: Callable[[Path], object]) -> None:
    kept.parent.mkdir()
    damage(kept)
    assert "pyarrow" in foreign_modules()
