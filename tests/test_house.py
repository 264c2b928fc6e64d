"""Architecture and size are tests: the rooms' import contracts, and a ratchet on length."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = (
    "broker",
    "history",
    "config",
    "infra",
    "nemesis",
    "workloads",
    "checkers",
    "harness",
    "plugins",
    "testing",
    "simulation",
    "protocol",
    "tools",
)
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MADE = ROOT / "broker" / "wire" / "messages"
"""The modules that a program writes. They have no limits, because they are not written by hand and
are seldom read whole."""
WRITTEN = [path for path in SOURCES if path.parent != MADE]

MODULE_LINES_MAX = 900
FUNCTION_LINES_MAX = 70

SMALL_MODULE_LINES = 80
SMALL_MODULES_LEFT = 5
"""At most so many modules below that length with a single importer are left. Lower the number when
you merge some."""

DIVIDED = (
    "broker",
    "simulation",
    "nemesis",
    "infra/api",
    "infra/backends",
    "infra/clients",
    "infra/machine",
    "infra/node",
    "infra/systems",
    "config",
    "harness/campaign",
)
"""Rooms that are divided into rooms, all the way down."""
DIVIDED_ROOMS = sorted({path.parent for room in DIVIDED for path in (ROOT / room).rglob("*.py")})

# What must not be called where, and what to use instead.
BANNED = (
    (SOURCES, re.compile(r"\b(TODO|FIXME|XXX)\b"), "finish it, or write an issue"),
    (SOURCES, re.compile(r"shell\s*=\s*True"), "an argument list"),
    (SOURCES, re.compile(r"\bpkill\b|\bkillall\b"), "the process id"),
    (
        SOURCES,
        re.compile(r"\bsparkContext\b|\.rdd\b|\.parallelize\("),
        "Spark's DataFrame API (checkers/engine/spark/tasks.py): Spark Connect has no RDDs",
    ),
    (TESTS, re.compile(r"\btime\.sleep\("), "infra.machine.waiting.wait_until with a deadline"),
    (TESTS, re.compile(r"unittest\.mock|MagicMock|monkeypatch\.setattr"), "the real thing"),
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_rooms_keep_their_import_contracts() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    outcome = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("path", WRITTEN, ids=relative)
def test_modules_and_functions_stay_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MODULE_LINES_MAX, "split it: it holds two things"
    long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


@pytest.mark.parametrize("path", WRITTEN, ids=relative)
def test_module_gives_a_name_once(path: Path) -> None:
    """Test what the merge of two modules can break: the second constant replaces the first."""
    names: Counter[str] = Counter()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] += 1
            case ast.Assign(targets=targets):
                found = (node for target in targets for node in ast.walk(target))
                names.update(node.id for node in found if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names[name] += 1
    assert [name for name, count in names.items() if count > 1] == []


def module_name(path: Path) -> str:
    """Return the name by which the module at ``path`` is imported."""
    names = path.relative_to(ROOT).with_suffix("").parts
    package = () if names[0] in ("simulation", "protocol", "tools") else ("ackproof",)
    return ".".join(package + names)


def imported_names(path: Path) -> set[str]:
    """Return the modules that ``path`` imports, among other names that may be no modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_small_modules_have_several_importers() -> None:
    """A small module with a single importer should be a section of that importer."""
    importers = Counter(name for path in WRITTEN for name in imported_names(path))
    small = [
        relative(path)
        for path in WRITTEN
        if path.stem not in ("__init__", "__main__", "interface")
        and len(path.read_text(encoding="utf-8").splitlines()) < SMALL_MODULE_LINES
        and importers[module_name(path)] == 1
    ]
    assert len(small) <= SMALL_MODULES_LEFT, "\n".join(small)


@pytest.mark.parametrize("room", DIVIDED_ROOMS, ids=relative)
def test_rooms_are_explained(room: Path) -> None:
    assert ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("paths", "pattern", "instead"), BANNED, ids=[ban[1].pattern for ban in BANNED]
)
def test_banned_words(paths: list[Path], pattern: re.Pattern[str], instead: str) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in paths
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"use {instead}"
