"""The boundary of the simulation: it uses only public names of the broker, and replaces no method.

A change of the broker then breaks the simulation only if it changes a public name.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "simulation"
OTHERS = {ROOM / "loop.py", ROOM / "zookeeper" / "client.py"}
"""The modules that use private names of asyncio and kazoo, which they replace."""
SOURCES = sorted(ROOM.rglob("*.py"))
RULE = re.compile(r"[A-Z][A-Za-z]+/[a-z]+(-[a-z]+)*")
OF_NAMED_TUPLES = {"_replace", "_asdict"}


def of_itself(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in {"self", "self_", "cls"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def reaches(path: Path, room: Path = ROOM) -> Iterator[str]:
    """Return where a module reads private attributes that it does not define itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    own = {node.attr for node in attributes if of_itself(node)} | {f.name for f in functions}
    for node in attributes:
        if is_private(node.attr) and not of_itself(node) and node.attr not in own:
            yield f"{path.relative_to(room)}:{node.lineno}: {ast.unparse(node)}"


def replacements(path: Path, room: Path = ROOM) -> Iterator[str]:
    """Return where a module sets attributes of others by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            target = node.args[0] if node.args else None
            on_itself = isinstance(target, ast.Name) and target.id == "self"
            if node.func.id in {"setattr", "delattr"} and not on_itself:
                yield f"{path.relative_to(room)}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOM)))
def test_module_reaches_into_nothing_private(path: Path) -> None:
    if path not in OTHERS:
        assert not list(reaches(path)), "ask the broker for a public property, or use its probe"
    assert not list(replacements(path)), "let the broker report to its probe"


def test_reach_and_replacement_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "class Look:\n"
        "    def look(self, log, other):\n"
        "        setattr(log, 'append', self._look)\n"
        "        return log._segments, other._look, log.end._replace(base=0)\n",
        encoding="utf-8",
    )
    assert [each.split(": ")[1] for each in reaches(module, tmp_path)] == ["log._segments"]
    assert len(list(replacements(module, tmp_path))) == 1


def rules(path: Path) -> Iterator[str]:
    """Return the first argument of each ``Violation`` of a module, as far as it is a literal."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Violation"):
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield name.value


def test_rules_name_subsystem_and_fault() -> None:
    """Test that the name of each invariant has the form ``Subsystem/what-went-wrong``."""
    names = {name for path in SOURCES for name in rules(path)}
    assert len(names) > 40
    assert not [name for name in names if not RULE.fullmatch(name)]
