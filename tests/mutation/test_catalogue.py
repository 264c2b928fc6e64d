"""The catalogue of mutants: each patch applies, can be imported, and changes the broker.

Patches are data that no other test runs. One that does not apply would be one fault less that the
detectors are measured with.
"""

import ast
import importlib
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from simulation.plans.scenarios import NEED_CONTROLLER, SCENARIOS
from tools.mutation.mutants import (
    CATALOGUE,
    COMPONENTS,
    Mutant,
    UnknownMutant,
    catalogue,
    read,
    select,
)
from tools.mutation.patches import StalePatch, apply, parse
from tools.mutation.sources import ROOT, broken

MUTANTS_MAX = 120
REAL_MIN = 40
ALL = catalogue()
PLACES = [
    pytest.param(mutant, file, id=f"{mutant.name}-{file}")
    for mutant in ALL.values()
    for file in dict.fromkeys(hunk.file for hunk in mutant.hunks)
]
_OF_THE_IMPORT = {"__file__", "__cached__", "__path__", "__builtins__"}


def behaviour(source: str) -> str:
    """Return what a module does: its syntax tree without docstrings."""
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


@pytest.mark.parametrize(("mutant", "file"), PLACES)
def test_patch_applies_to_broker_and_changes_behaviour(mutant: Mutant, file: str) -> None:
    assert file.startswith("broker/"), "a mutant is a broken broker; the detectors stay as they are"
    sound, text = (ROOT / file).read_text(encoding="utf-8"), broken(mutant, ROOT)[file]
    assert behaviour(text) != behaviour(sound)


@pytest.mark.parametrize(("mutant", "file"), PLACES)
def test_patched_module_can_be_imported(mutant: Mutant, file: str) -> None:
    name = "ackproof." + file.removesuffix(".py").replace("/", ".")
    sound = importlib.import_module(name)
    module = types.ModuleType(name)
    exec(compile(broken(mutant, ROOT)[file], file, "exec"), vars(module))
    assert vars(module).keys() >= vars(sound).keys() - _OF_THE_IMPORT


def test_patched_modules_use_no_undefined_name(tmp_path: Path) -> None:
    for mutant in ALL.values():
        for name, text in broken(mutant, ROOT).items():
            path = tmp_path / mutant.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "check", "--isolated", "--no-cache", "--select", "F821,F823", tmp_path]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout


def test_catalogue_is_small_and_covers_components_and_real_faults() -> None:
    assert len(ALL) <= MUTANTS_MAX
    assert sum(mutant.was_real for mutant in ALL.values()) >= REAL_MIN
    assert set(Counter(mutant.component for mutant in ALL.values())) == set(COMPONENTS)
    assert len({mutant.breaks for mutant in ALL.values()}) == len(ALL)


def test_only_real_faults_may_break_no_guarantee() -> None:
    """Others without a guarantee would measure the simulator alone."""
    without = [mutant for mutant in ALL.values() if mutant.guarantee is None]
    assert all(mutant.was_real and mutant.gap for mutant in without)


def test_scenarios_of_mutants_exist_in_the_simulator() -> None:
    for mutant in ALL.values():
        if mutant.scenario:
            assert mutant.scenario in SCENARIOS
            assert not (mutant.without_controller and mutant.scenario in NEED_CONTROLLER)


def test_mutants_are_selected_by_name_and_component() -> None:
    assert len(select((), ALL)) == len(ALL)
    assert {mutant.component for mutant in select(("storage",), ALL)} == {"storage"}
    assert [mutant.name for mutant in select(("fsync-skipped",), ALL)] == ["fsync-skipped"]
    with pytest.raises(UnknownMutant, match="fsync-skiped"):
        select(("fsync-skiped",), ALL)


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


def test_hunk_applies_by_lines_and_in_one_place_only() -> None:
    first, second = parse(DIFF)
    assert apply("zero\none\ntwo\n", first) == "zero\none\nTWO\n"
    assert apply("nine\n", second) == "nine\nten\n"
    for text in ("one\n", "one\ntwo\nother\none\ntwo\n"):
        with pytest.raises(StalePatch):
            apply(text, first)


@pytest.mark.parametrize(
    "wrong",
    ["", "words", "--- a/x\n+++ /dev/null\n@@ @@\n-x\n", "--- a/x\n+++ b/../x\n@@ @@\n-x\n"],
)
def test_text_without_hunk_or_file_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"no hunk|names no file"):
        parse(wrong)


@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ("component: storage", "component: disks", "'disks' is not one of"),
        ("guarantee: no-acked", "guarantee: some-acked", "'some-acked-record-lost' is not one of"),
        ("simulator: yes", "simulator: maybe", "'maybe' is not one of"),
        ("breaks: ", "what: ", "the header has"),
        ("@@", "##", "no hunk"),
    ],
)
def test_malformed_patch_is_refused_with_its_file(
    tmp_path: Path, line: str, instead: str, complaint: str
) -> None:
    text = (CATALOGUE / "fsync-skipped.patch").read_text(encoding="utf-8")
    path = tmp_path / "wrong.patch"
    path.write_text(text.replace(line, instead), encoding="utf-8")
    with pytest.raises(ValueError, match=complaint) as error:
        read(path)
    assert str(path) in str(error.value)
