"""The broker's process before it has read its configuration."""

import subprocess
import sys
from pathlib import Path


def test_broker_help_leaves_no_files(tmp_path: Path) -> None:
    """Test that the process does not compute the leftovers either: see ``broker.quick_start``."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.broker", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_garbage_is_collected_but_not_the_modules(tmp_path: Path) -> None:
    seen = (
        "import gc, ackproof.broker.__main__; print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", seen],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True True\n", done.stderr


def test_http_is_imported_only_for_a_metrics_listener(tmp_path: Path) -> None:
    """aiohttp is a quarter of what it takes a broker to start."""
    loaded = "import sys, ackproof.broker.__main__; print('aiohttp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", loaded],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False\n", done.stderr
