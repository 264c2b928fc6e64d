"""Size and order are tests: a ratchet on length. ``make lint`` checks the rooms' import contracts.

A test reads all modules and names those that fail. A case for each module would cost every worker
of ``make test`` more to collect than to run.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
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


@dataclass(frozen=True)
class Module:
    """The facts of a module that the tests need. Its syntax tree is too large to be kept.

    Attributes:
        names: How often the module's own statements give each name to something.
        functions: The lines of each function, also of those within others, by the place of it.
        imports: The modules that it imports, among other names that may be no modules.
        explained: Whether it has a docstring.
    """

    names: Counter[str]
    functions: dict[str, int]
    imports: frozenset[str]
    explained: bool


@cache
def module_at(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions: dict[str, int] = {}
    imports: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                place = f"{relative(path)}:{node.lineno}: {node.name}"
                functions[place] = (node.end_lineno or node.lineno) - node.lineno + 1
            case ast.ImportFrom(module=str(module)):
                imports |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                imports |= {alias.name for alias in node.names}
    return Module(given_names(tree), functions, frozenset(imports), bool(ast.get_docstring(tree)))


def given_names(module: ast.Module) -> Counter[str]:
    """Return how often a module's own statements give each name to something."""
    names: Counter[str] = Counter()
    for statement in module.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] += 1
            case ast.Assign(targets=targets):
                found = (node for target in targets for node in ast.walk(target))
                names.update(node.id for node in found if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names[name] += 1
    return names


def test_modules_are_short() -> None:
    long = [
        f"{relative(path)} ({lines} lines)"
        for path in WRITTEN
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES_MAX
    ]
    assert not long, "split what holds two things"


def test_functions_are_short() -> None:
    long = [
        f"{place} ({lines} lines)"
        for path in WRITTEN
        for place, lines in module_at(path).functions.items()
        if lines > FUNCTION_LINES_MAX
    ]
    assert not long


def test_module_gives_a_name_once() -> None:
    """Test what the merge of two modules can break: the second constant replaces the first."""
    given_twice = [
        f"{relative(path)}: {name}"
        for path in WRITTEN
        for name, count in module_at(path).names.items()
        if count > 1
    ]
    assert not given_twice


def module_name(path: Path) -> str:
    """Return the name by which the module at ``path`` is imported."""
    names = path.relative_to(ROOT).with_suffix("").parts
    package = () if names[0] in ("simulation", "protocol", "tools") else ("ackproof",)
    return ".".join(package + names)


def test_small_modules_have_several_importers() -> None:
    """A small module with a single importer should be a section of that importer."""
    importers = Counter(name for path in WRITTEN for name in module_at(path).imports)
    small = [
        relative(path)
        for path in WRITTEN
        if path.stem not in ("__init__", "__main__", "interface")
        and len(path.read_text(encoding="utf-8").splitlines()) < SMALL_MODULE_LINES
        and importers[module_name(path)] == 1
    ]
    assert len(small) <= SMALL_MODULES_LEFT, "\n".join(small)


def test_rooms_are_explained() -> None:
    unexplained = [
        relative(room) for room in DIVIDED_ROOMS if not module_at(room / "__init__.py").explained
    ]
    assert not unexplained


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
