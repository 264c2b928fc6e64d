"""A stranger's first minutes: the wheel in a virtual environment of its own, and no checkout."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.e2e]


@pytest.fixture
def call(
    environment: Path, decoys: Path, settings: Mapping[str, str], seconds_of: Callable[..., str]
) -> Callable[..., str]:
    """Call the installed command in a directory full of decoys."""

    def call(*arguments: str) -> str:
        command = [str(environment / "bin" / "ackproof"), *arguments]
        return seconds_of(" ".join(arguments), command, cwd=decoys, env=settings)

    return call


def test_demo_ends_with_the_path_of_its_report(call, decoys: Path) -> None:
    report = decoys / call("demo").splitlines()[-1].strip()
    assert report.name == "report.html"
    assert report.is_file()


def test_first_campaign_runs_beside_decoys(call, decoys: Path) -> None:
    call("init", "mine.yaml")
    assert "mine.yaml: right" in call("validate", "mine.yaml")
    report = decoys / call("run", "mine.yaml", "--seed", "1").splitlines()[-1].strip()
    assert report.is_file()
