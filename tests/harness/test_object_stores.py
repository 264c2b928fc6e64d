"""Results that are in a store: what the commands make of their names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.harness.cli import cli
from ackproof.harness.directory import (
    CAMPAIGN_FILE,
    ResultsDirectoryError,
    copy,
    destination,
    named,
)
from tests.support.fakes.s3_store import SECRET, Store, store


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """With results in ``run``."""
    scratch = tmp_path_factory.mktemp("store")
    results = scratch / "results"
    results.mkdir()
    (results / CAMPAIGN_FILE).write_text("name: made\n", encoding="utf-8")
    with store(scratch / "log") as found, found.in_environment():
        found.copy(results, "run")
        yield found


def test_results_in_a_store_are_found_and_unchanged(there: Store) -> None:
    before = there.holds("run")
    assert str(named(there.uri("run"))) == there.uri("run")
    assert there.holds("run") == before


def test_store_without_results_is_refused(there: Store) -> None:
    with pytest.raises(ResultsDirectoryError, match="elsewhere has no results of a campaign"):
        named(there.uri("elsewhere"))


@pytest.mark.usefixtures("there")
def test_no_such_bucket() -> None:
    with pytest.raises(ResultsDirectoryError, match="s3a://nobodys-bucket does not exist"):
        named("s3a://nobodys-bucket/run")


def test_access_to_a_closed_store_is_refused(there: Store) -> None:
    uri = there.uri("run")
    with (
        there.closed_to_all(),
        pytest.raises(ResultsDirectoryError, match=f"{uri} cannot be used") as refused,
    ):
        named(uri)
    assert SECRET not in str(refused.value)


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("uri", ["ftp://host/run", "s3a://nobodys-bucket/run", "s3a://a:b@c/run"])
def test_a_command_says_so_and_ends_with_2(command: str, uri: str) -> None:
    result = CliRunner().invoke(cli, [command, uri])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "a:b" not in result.stderr


def test_results_are_copied_into_a_store_once(there: Store, tmp_path: Path) -> None:
    results = tmp_path / "quick-1"
    (results / "runs" / "1").mkdir(parents=True)
    (results / "report.html").write_text("the report")
    (results / "runs" / "1" / "empty").touch()
    nights = destination(there.uri("nights"))
    assert str(copy(results, nights)) == there.uri("nights/quick-1")
    copied = {"report.html": b"the report", "runs/1/empty": b""}
    assert there.holds("nights/quick-1") == copied
    (results / "report.html").write_text("another report")
    with pytest.raises(FileExistsError, match="nights/quick-1 exists already"):
        copy(results, nights)
    assert there.holds("nights") == {f"quick-1/{name}": text for name, text in copied.items()}


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("uri", ["s3a://nobodys-bucket/nights", "ftp://host/nights"])
def test_nightly_refuses_a_place_for_copies_that_cannot_be_written(uri: str) -> None:
    result = CliRunner().invoke(cli, ["nightly", "--copy-to", uri])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "seeds:" not in result.stdout
