"""No bug of the catalogue is stale: each fits the sources, can be imported, and breaks something.

Patches are data that nobody executes from day to day. One that fits no more would be one bug less
that anybody looks for.
"""

import ast
import importlib
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from ackproof.harness.selftest.catalogue import (
    BUGS,
    FAMILIES,
    Bug,
    UnknownBug,
    catalogue,
    chosen,
    read,
)
from ackproof.harness.selftest.patches import StalePatch, changed, parse
from ackproof.harness.selftest.sources import broken

ROOT = Path(__file__).parents[2]
ALL = catalogue()
PLACES = [
    pytest.param(bug, file, id=f"{bug.name}-{file}")
    for bug in ALL.values()
    for file in dict.fromkeys(hunk.file for hunk in bug.hunks)
]


def behaviour(source: str) -> str:
    """What a module does: without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not is_docstring(one)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@pytest.mark.parametrize(("bug", "file"), PLACES)
def test_a_bug_fits_the_broker_and_breaks_something(bug: Bug, file: str) -> None:
    assert file.startswith("broker/"), "a bug is the broker's; what looks for it stays as it is"
    sound, text = (ROOT / file).read_text(encoding="utf-8"), broken(bug, ROOT)[file]
    assert behaviour(text) != behaviour(sound)


@pytest.mark.parametrize(("bug", "file"), PLACES)
def test_a_broken_module_can_be_imported(bug: Bug, file: str) -> None:
    name = "ackproof." + file.removesuffix(".py").replace("/", ".")
    sound = importlib.import_module(name)
    module = types.ModuleType(name)
    exec(compile(broken(bug, ROOT)[file], file, "exec"), vars(module))
    assert vars(module).keys() >= vars(sound).keys() - {"__builtins__"} - _OF_THE_IMPORT


_OF_THE_IMPORT = {"__file__", "__cached__", "__path__"}


def test_there_are_bugs_of_every_family() -> None:
    assert set(Counter(bug.family for bug in ALL.values())) == set(FAMILIES)
    assert len(ALL) >= 30
    assert len({bug.breaks for bug in ALL.values()}) == len(ALL)


def test_bugs_are_chosen_by_name_and_by_family() -> None:
    assert len(chosen((), ALL)) == len(ALL)
    assert {bug.family for bug in chosen(("log",), ALL)} == {"log"}
    assert [bug.name for bug in chosen(("fsync-skipped",), ALL)] == ["fsync-skipped"]
    with pytest.raises(UnknownBug, match="fsync-skiped"):
        chosen(("fsync-skiped",), ALL)


DIFF = """\
--- a/broker/x.py
+++ b/broker/x.py
@@ -1,2 +1,2 @@
 one
-two
+TWO
@@ -9,1 +9,2 @@
 nine
+ten
"""


def test_a_patch_goes_by_lines_and_not_by_numbers() -> None:
    first, second = parse(DIFF)
    assert changed("zero\none\ntwo\n", first) == "zero\none\nTWO\n"
    assert changed("nine\n", second) == "nine\nten\n"
    for text in ("one\n", "one\ntwo\nother\none\ntwo\n"):
        with pytest.raises(StalePatch):
            changed(text, first)


@pytest.mark.parametrize(
    "wrong",
    ["", "words", "--- a/x\n+++ /dev/null\n@@ @@\n-x\n", "--- a/x\n+++ b/../x\n@@ @@\n-x\n"],
)
def test_what_is_no_patch_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"no hunk|names no file"):
        parse(wrong)


@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ("family: log", "family: logs", "'logs' is none of"),
        ("seen by: ", "seen by: nobody, ", "'nobody' is none of"),
        ("breaks: ", "what: ", "its header has"),
        ("@@", "##", "no hunk"),
    ],
)
def test_a_malformed_bug_is_told_with_its_file(
    tmp_path: Path, line: str, instead: str, complaint: str
) -> None:
    text = (BUGS / "fsync-skipped.patch").read_text(encoding="utf-8")
    path = tmp_path / "wrong.patch"
    path.write_text(text.replace(line, instead), encoding="utf-8")
    with pytest.raises(ValueError, match=complaint) as told:
        read(path)
    assert str(path) in str(told.value)


def test_no_bug_dies_of_a_name_that_is_not_there(tmp_path: Path) -> None:
    """That one anybody would find."""
    for bug in ALL.values():
        for name, text in broken(bug, ROOT).items():
            path = tmp_path / bug.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "check", "--isolated", "--no-cache", "--select", "F821,F823", tmp_path]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout
