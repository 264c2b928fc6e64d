"""The environment of a campaign names the commit that it ran from, if there is one."""

import subprocess
from pathlib import Path

import pytest

from ackproof.harness.environment import Versions, commit_of


def git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *who, *arguments], cwd=directory, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of a checkout with one commit."""
    package, sources = tmp_path / "ackproof", tmp_path / "harness"
    package.mkdir()
    sources.mkdir()
    (sources / "cli.py").touch()
    (package / "harness").symlink_to("../harness")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    git(tmp_path, "tag", "v9")
    return package


def test_commit_of_a_checkout_says_whether_files_were_changed(package: Path) -> None:
    commit = git(package, "rev-parse", "--short=12", "HEAD")
    (package.parent / "results").mkdir()
    assert commit_of(package) == commit
    (package.parent / "harness" / "cli.py").write_text("changed", encoding="utf-8")
    assert commit_of(package) == f"{commit}+"


def test_package_installed_into_another_checkout_has_no_commit(package: Path) -> None:
    (package / "harness").unlink()
    (package / "harness").mkdir()
    assert commit_of(package) is None


def test_copy_of_a_checkout_without_its_history_has_no_commit(package: Path) -> None:
    (package.parent / ".git").rename(package.parent / "history")
    assert commit_of(package) is None


@pytest.mark.parametrize(
    ("versions", "build"),
    [
        (Versions(ackproof="0.2.0", commit="98a943f41c2d+"), "0.2.0 (98a943f41c2d+)"),
        (Versions(ackproof="0.2.0"), "0.2.0"),
        (Versions(), ""),
    ],
)
def test_build_has_version_and_commit(versions: Versions, build: str) -> None:
    assert versions.build == build
