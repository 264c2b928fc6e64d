"""The pages on design name files and folders that are there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "docs" / "architecture.md", *(ROOT / "docs").glob("design-*.md")])
SOURCE = re.compile(r"`([\w./-]+\.(?:py|yaml))`")
FOLDER = re.compile(r"`([a-z_]+(?:/[a-z_]+)*)/`")
ON_HOSTS = {"software", "run"}
"""Folders of a host, and not of the project."""

LINES_MAX = 200


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """All files of the project, from its root."""
    command = ["git", "ls-files"]
    listed = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout")
    return [f"/{line}" for line in listed.stdout.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path, tracked: list[str]) -> None:
    text = page.read_text(encoding="utf-8")
    files = [name for name in SOURCE.findall(text) if not name.startswith("~")]
    folders = set(FOLDER.findall(text)) - ON_HOSTS
    assert files or folders
    gone = [name for name in files if not any(path.endswith(f"/{name}") for path in tracked)]
    gone += [name for name in sorted(folders) if not any(f"/{name}/" in path for path in tracked)]
    assert not gone


def test_overview_stays_short() -> None:
    overview = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(overview.splitlines()) <= LINES_MAX
    pages = re.findall(r"\((design-[a-z]+\.md)\)", overview)
    assert sorted(set(pages)) == [page.name for page in PAGES if page.name.startswith("design-")]
