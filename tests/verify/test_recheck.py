"""The independent checker ``verify/recheck.py`` agrees with the checkers, and refuses tampering."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ackproof.harness import sealing
from ackproof.harness.cli import cli
from ackproof.harness.report import verdict
from ackproof.testing.histories import BEGIN_NS, PRODUCER, SETTINGS, History, sound_history
from tests.support.builders.checked_runs import checked
from tests.support.builders.examples import examples

PROGRAM = Path(__file__).parents[2] / "verify" / "recheck.py"
sys.path.insert(0, str(PROGRAM.parent))

import recheck  # noqa: E402

KEYLESS = {**SETTINGS, "enable.idempotence": False}
ONE = {**SETTINGS, "acks": "1"}
SECOND = 1_000_000_000


def lose(history: History, rng: random.Random) -> None:
    """An acked record is not in the final log; the rest moves up."""
    row = rng.choice(history.rows("log"))
    partition, offset = row["partition"], row["offset"]
    history.remove(row)
    for other in history.rows("log", partition):
        other["offset"] -= other["offset"] > offset


def delete(history: History, rng: random.Random) -> None:
    """A record is gone from the middle of the log, and its offset is empty."""
    history.remove(rng.choice(history.rows("log")))


def repeat(history: History, rng: random.Random) -> None:
    row = rng.choice(history.rows("log"))
    end = max(one["offset"] for one in history.rows("log", row["partition"])) + 1
    history.tables["log", "final-read"].append({**row, "offset": end})


def swap(history: History, rng: random.Random) -> None:
    """Two records have changed places."""
    one, other = rng.sample(history.rows("log", rng.randrange(history.partitions)), 2)
    for name in ("producer", "sequence", "cell"):
        one[name], other[name] = other[name], one[name]


def fail(history: History, rng: random.Random) -> None:
    """A record that is in the log had no ack: its outcome is a failure, or is unknown."""
    row = rng.choice([one for one in history.rows("sends") if one["type"] == "ok"])
    row |= {"type": rng.choice(["fail", "info"]), "offset": None, "error": "_TIMED_OUT"}


def forget(history: History, rng: random.Random) -> None:
    """The send of a record was not recorded."""
    row = rng.choice([one for one in history.rows("sends") if one["type"] == "invoke"])
    for event in history.rows("sends", writer=PRODUCER):
        if event["sequence"] == row["sequence"]:
            history.remove(event)


def misname(history: History, rng: random.Random) -> None:
    """A record's ack names another offset."""
    row = rng.choice([one for one in history.rows("sends") if one["type"] == "ok"])
    row["offset"] = rng.randrange(20)


def stray(history: History, rng: random.Random) -> None:
    """The payload of a record names another cell, or is of no client."""
    row = rng.choice(history.rows("log"))
    row |= rng.choice([{"cell": "other"}, {"cell": None, "producer": None, "sequence": None}])


def late(history: History, rng: random.Random) -> None:
    """A record was acknowledged after the final read had begun."""
    row = rng.choice([one for one in history.rows("sends") if one["type"] == "ok"])
    row["time"] = BEGIN_NS + 200 * SECOND


CHANGES: tuple[Callable[[History, random.Random], None], ...] = (
    *(lose, delete, repeat, swap, fail, forget, misname, stray, late),
)


def generated(directory: Path, seed: int) -> None:
    """Write checked results of a history with up to three changes."""
    rng = random.Random(seed)
    settings = rng.choice([SETTINGS, KEYLESS, ONE])
    history = sound_history(settings, partitions=rng.randint(1, 2), records=rng.randint(8, 24))
    for change in rng.choices(CHANGES, k=rng.randrange(4)):
        change(history, rng)
    history.tables["log", "final-read"].sort(key=lambda row: (row["partition"], row["offset"]))
    history.tables["sends", PRODUCER].sort(key=lambda row: row["time"])
    history.write(directory)
    verdict.write(directory, verdict.to_document({"name": "made", "seed": 1}, checked(directory)))


def report_of(directory: Path) -> recheck.Report:
    report = recheck.Report()
    recheck.recheck(directory, report)
    return report


def disagreements(tmp_path: Path, seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        directory = tmp_path / str(seed)
        generated(directory, seed)
        found += [f"seed {seed}: {words}" for words in report_of(directory).disagreed]
        shutil.rmtree(directory)
    return found


def test_both_agree_on_generated_histories(tmp_path: Path) -> None:
    assert disagreements(tmp_path, range(examples(20))) == []


# A thousand histories take minutes.
@pytest.mark.long
def test_both_agree_on_a_thousand_generated_histories(tmp_path: Path) -> None:
    assert disagreements(tmp_path, range(1000)) == []


def _document(directory: Path) -> dict:
    return json.loads((directory / "verdict.json").read_text())


@pytest.mark.parametrize("change", [lose, repeat, swap, delete])
def test_verdict_that_hides_an_anomaly_is_found(
    tmp_path: Path, change: Callable[[History, random.Random], None]
) -> None:
    sound = tmp_path / "sound"
    sound_history().write(sound)
    passed = verdict.to_document({"name": "made", "seed": 1}, checked(sound))
    history = sound_history()
    change(history, random.Random(3))
    history.tables["log", "final-read"].sort(key=lambda row: (row["partition"], row["offset"]))
    history.write(tmp_path / "bad")
    verdict.write(tmp_path / "bad", passed)
    assert report_of(tmp_path / "bad").disagreed


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = tmp_path / "results"
    generated(directory, 0)
    return directory


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key, and the public one."""
    own = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    spki = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(own.public_key().public_bytes(Encoding.PEM, spki))
    return private, public


def test_sealed_results_agree_by_the_programs_alone(results: Path, keys: tuple[Path, Path]) -> None:
    private, public = keys
    sealed = CliRunner().invoke(cli, ["seal", str(results), "--key", str(private)])
    assert sealed.output.strip() == str(results / "seal.json")
    command = [sys.executable, "-P", str(PROGRAM), str(results)]
    signed = subprocess.run(
        [*command, "--key", str(public)], capture_output=True, text=True, check=False
    )
    assert signed.returncode == 0, signed.stdout + signed.stderr
    assert "agrees: the signature is by the key that was given" in signed.stdout
    without = subprocess.run(command, capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert "the seal is signed: give the public key" in without.stdout


def tampered(results: Path, rng: random.Random) -> str:
    """Change one byte of one file, remove a file, or add one; return what was done."""
    files = sorted(path for path in results.rglob("*") if path.is_file())
    path = rng.choice(files)
    kind = rng.choice(["flip"] * 8 + ["remove", "add"])
    if kind == "remove":
        path.unlink()
    elif kind == "add":
        path.with_name(f"{path.name}.added").write_bytes(b"x")
    else:
        content = bytearray(path.read_bytes() or b"\0")
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    return f"{kind} {path.relative_to(results)}"


def accepted(results: Path, key: bytes, tmp_path: Path, seeds: range) -> list[str]:
    """Return which tamperings were not refused."""
    found = []
    for seed in seeds:
        copy = tmp_path / "copy"
        shutil.copytree(results, copy)
        done = tampered(copy, random.Random(seed))
        report = recheck.Report()
        try:
            recheck.check_seal(copy, [key], report, unsigned=False)
        except (recheck.Unreadable, OSError, ValueError, KeyError, TypeError):
            report.disagreed.append("it cannot be read")
        if not report.disagreed:
            found.append(f"seed {seed}: {done}")
        shutil.rmtree(copy)
    return found


def test_tampered_results_are_refused(
    results: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    sealing.seal(results, sealing.read_key(keys[0]))
    assert accepted(results, keys[1].read_bytes(), tmp_path, range(examples(60))) == []


# Ten thousand copies take minutes.
@pytest.mark.long
def test_ten_thousand_tamperings_are_refused(
    results: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    sealing.seal(results, sealing.read_key(keys[0]))
    assert accepted(results, keys[1].read_bytes(), tmp_path, range(10_000)) == []


def test_seal_with_another_key_is_refused(results: Path, keys: tuple[Path, Path]) -> None:
    sealing.seal(results, Ed25519PrivateKey.from_private_bytes(bytes(32)))
    report = recheck.Report()
    recheck.check_seal(results, [keys[1].read_bytes()], report, unsigned=False)
    assert report.disagreed == ["no signature is by the key that was given"]


def test_key_of_another_kind_is_refused(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "no.pem"
    file.write_text("no key")
    refused = CliRunner().invoke(cli, ["seal", str(results), "--key", str(file)])
    assert refused.exit_code == 2
    assert f"--key: {file} must hold a private key (Ed25519" in refused.output


def test_key_that_does_not_exist_is_named(results: Path, tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["seal", str(results), "--key", str(tmp_path / "none.pem")])
    assert refused.exit_code == 2
    assert f"No such file or directory: '{tmp_path / 'none.pem'}'" in refused.output


def test_program_is_small_and_shares_no_code() -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 1000
    assert "import ackproof" not in text
    assert "from ackproof" not in text
