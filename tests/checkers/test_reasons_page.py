"""``docs/inconclusive.md`` has the reasons that the checkers give, and no others."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/inconclusive.md").read_text(encoding="utf-8")
EMITTERS = {
    "checkers/context/coverage.py": ("lacking",),
    "checkers/context/row_times.py": ("missing",),
    "checkers/context/final_reads.py": ("read_gaps",),
    "checkers/context/run.py": ("gather", "_tables", "_unobserved"),
    "checkers/context/steps.py": ("fault_gaps", "_unproven", "failures", "gaps"),
    "checkers/context/writers.py": (
        "lack_of_crashed",
        "gaps",
        "_lacks",
        "_unplanned_partitions",
        "_silenced",
    ),
    "checkers/guarantees/decisions.py": ("verdict", "_open"),
    "checkers/guarantees/findings.py": ("_forgotten", "until_retention"),
    "checkers/guarantees/judge.py": ("_cell_gaps", "_too_few", "_untouched"),
    "checkers/index/sequences.py": ("missing",),
}
"""The functions whose sentences are reasons, by their modules."""
_VALUE = "\0"
_PLACEHOLDER = re.compile(
    r"\b(?:X|FAULT|PARTITION|CLIENT|FILE|DIRECTORY|ERROR|(?<=no ack )(?:before|during|after))\b"
)


def longest(sentence: str) -> str:
    """Return the longest part of a sentence between its values."""
    return max((part.strip(" :;,()") for part in sentence.split(_VALUE)), key=len)


def text(node: ast.AST | None) -> str | None:
    """Return a string of the sources with its values marked; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) or _VALUE for part in node.values)
    return None


def sentences(node: ast.AST) -> Iterator[str]:
    """Yield what a function yields or returns, or calls ``words``, where it is written out."""
    for one in ast.walk(node):
        named = isinstance(one, ast.Assign) and "words" in map(ast.unparse, one.targets)
        keyword = isinstance(one, ast.keyword) and one.arg == "words"
        if named or keyword or isinstance(one, ast.Yield | ast.Return):
            found = text(getattr(one, "value", None))
            if found is not None:
                yield found


def emitted() -> Iterator[tuple[str, str]]:
    for module, names in EMITTERS.items():
        tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
        for name in names:
            (function,) = [one for one in functions if one.name == name]
            for sentence in sentences(function):
                yield f"{module}:{name}", longest(sentence)


@cache
def sources() -> str:
    """Return the sources of the checkers, with each string on one line."""
    folders = (ROOT / "checkers", ROOT / "history")
    files = (path for folder in folders for path in folder.rglob("*.py"))
    written = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", written)


def listed() -> list[str]:
    """Return the longest fixed part of each reason on the page."""
    rows = re.findall(r"^\| (?!reason|---)(.+?) \|", PAGE, re.MULTILINE)
    reasons = [reason for row in rows for reason in row.split("<br>")]
    return [longest(_PLACEHOLDER.sub(_VALUE, reason)) for reason in reasons]


EMITTED = [(place, words) for place, words in emitted() if " " in words]


def test_reasons_are_found_in_the_sources() -> None:
    assert len({place for place, _ in EMITTED}) > len(EMITTERS)


@pytest.mark.parametrize(("place", "words"), EMITTED, ids=str)
def test_reason_of_the_sources_stands_on_the_page(place: str, words: str) -> None:
    assert words in PAGE, f"docs/inconclusive.md lacks a reason of {place}"


@pytest.mark.parametrize("reason", listed())
def test_reason_of_the_page_stands_in_the_sources(reason: str) -> None:
    assert reason in sources(), f"docs/inconclusive.md: no reason has the words {reason!r}"
