"""A ratchet on language: the counts of old habits in each room may only fall (docs/style.md).

``python -m tests.test_style`` prints the table ``LIMITS`` with the present counts, and
``python -m tests.test_style ROOM`` prints each place in that room.
"""

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HABITS = ("fragments", "words", "riddles", "headings")
LIMITS: dict[str, tuple[int, ...]] = {
    ".": (0, 0, 0, 0),
    "benchmarks": (0, 0, 0, 0),
    "broker": (0, 0, 0, 0),
    "campaigns": (0, 9, 0, 0),
    "checkers": (0, 1, 0, 0),
    "config": (0, 0, 0, 0),
    "docs": (0, 0, 0, 0),
    "examples": (0, 1, 0, 0),
    "harness": (0, 1, 0, 0),
    "history": (0, 0, 0, 0),
    "infra": (0, 0, 0, 0),
    "nemesis": (0, 0, 0, 0),
    "plugins": (0, 0, 0, 0),
    "protocol": (0, 0, 0, 0),
    "simulation": (0, 0, 0, 0),
    "testing": (0, 0, 0, 0),
    "tests": (0, 8, 0, 0),
    "tools": (0, 6, 0, 0),
    "workloads": (0, 0, 0, 0),
}
"""For each room, the highest count of each of ``HABITS``: docstrings that open with a fragment,
words that plain English does without, test names that are riddles, and headings that are clauses.
Lower the counts when you have reworded a room, and never raise them."""
SHOWN = 40
"""At most so many places are named when a room has too many."""

FRAGMENT = re.compile(
    r"(?:Of|As|By|Those|It,|Likewise|The same|Who(?:m|se|ever)?|What|Wh(?:ere|en|y|ich)|How|That|"
    r"(?:No|Some|Any)body|Nor)\b"
)
"""The beginning of a docstring that is no sentence, or whose subject is not named."""
WORDS = (
    *(
        "whoever",
        "whomever",
        "nobody",
        "somebody",
        "anew",
        "likewise",
        "befall",
        "befalls",
        "befell",
    ),
    *("in vain", "is to be", "are to be", "at the most", "what becomes of", "what became of"),
    *("what comes of", "what came of", "laid hands on", "by turns", "told nothing", "nor a"),
)
"""Words that name no person or thing, are out of use, or make a sentence longer."""
RIDDLE = re.compile(r"test_(?:\w+_)?(?:who(?:m|se|ever)?|what|nobody|somebody|told|anew)(?:_|$)")
"""A name of a test that does not name its subject, or names it by a relative clause."""
CLAUSE = re.compile(
    r"(?:What|Whe(?:n|re|ther)|Which|Why|Who|How(?! to\b)|Of|If|Not|As)\b"
    r"|.*\b(?:that|which|who|what|is|are|was|were|came|fell)\b"
)
"""A heading that is a clause, or has one. A question that ends with a question mark is none."""
HEADING = re.compile(r"^#+ +(.+)$|^```[\s\S]*?^```", re.MULTILINE)

NAME = re.compile(r"`[a-z0-9]+(?:-[a-z0-9]+)+`")
"""A name in a page, such as that of a mutant, which is given elsewhere."""

VISIBLE = (
    *("harness", "checkers", "nemesis", "infra", "workloads"),
    *("config", "history", "testing", "plugins"),
)
"""The rooms whose messages users read."""
MESSAGE_WORDS = re.compile(
    r"\b(?:who(?:m|ever|mever)?|(?:no|some|any|every)body|un?told|tells?|anew|likewise|in vain|"
    r"befell|befalls?|(?:of|to) (?:which|whom)|(?:is|are) to be|at the most|laid hands on|"
    r"what (?:becomes|became|is there)|(?:of|our) ours?(?: own)?|to be had|struck|bitten)\b",
    re.IGNORECASE,
)
"""Words that make a message hard to understand, or name a process as if it were a person."""
MESSAGE_WORDS_MIN = 3
"""Strings with fewer words are keys and labels, not sentences."""
PLACEHOLDER = re.compile(r"{[{%#].*?[}%#]}", re.DOTALL)

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """One place where a habit was found.

    Attributes:
        room: The directory at the top of the checkout; ``.`` for files beside the directories.
        habit: One of ``HABITS``.
        place: The path of the file relative to the checkout, and the line.
        text: The beginning of the line or the name.
    """

    room: str
    habit: str
    place: str
    text: str


def room_files(room: str) -> list[Path]:
    """Return the files of a room whose language is counted, in order."""
    suffixes = {".py", ".md", ".html", ".yaml"}
    paths = (ROOT / room).rglob("*") if room != "." else ROOT.glob("*")
    return sorted(path for path in paths if path.suffix in suffixes and path.is_file())


def definitions(node: ast.AST) -> Iterator[Definition]:
    """Yield the module, classes and functions in and below ``node``."""
    if isinstance(node, Definition):
        yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, block, ()):
            if hasattr(child, "body"):
                yield from definitions(child)


def python_habits(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield the habit, the line and the text of each fragment and riddle of a module."""
    for node in definitions(tree):
        line = getattr(node, "lineno", 1)
        doc = ast.get_docstring(node, clean=False)
        if doc and FRAGMENT.match(doc.lstrip()):
            yield "fragments", line, doc.lstrip().splitlines()[0]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and RIDDLE.match(node.name):
            yield "riddles", line, node.name


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the fixed text of each string of a module that is not a docstring."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            fixed = [part for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(id(part) for part in fixed)
            yield node.lineno, " ".join(str(part.value) for part in fixed)
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield node.lineno, str(node.value)


def message_habits(found: Iterator[tuple[int, str]]) -> Iterator[tuple[str, int, str]]:
    """Yield the habit, the line and the text of each message with one of ``MESSAGE_WORDS``."""
    for line, text in found:
        if MESSAGE_WORDS.search(text) and len(text.split()) >= MESSAGE_WORDS_MIN:
            yield "messages", line, text


def text_habits(path: Path, text: str) -> Iterator[tuple[str, int, str]]:
    """Yield the habit, the line and the text of each word of the list, and of each heading."""
    lowered = text.lower()
    if path.suffix == ".md":
        lowered = NAME.sub(lambda name: " " * len(name[0]), lowered)
    for word in WORDS:
        if word in lowered and path != Path(__file__):
            for match in re.finditer(rf"\b{word}\b", lowered):
                yield "words", text.count("\n", 0, match.start()) + 1, word
    if path.suffix == ".md":
        for match in HEADING.finditer(text):
            heading = match.group(1)
            if heading and CLAUSE.match(heading) and not heading.endswith("?"):
                yield "headings", text.count("\n", 0, match.start()) + 1, heading


@cache
def findings() -> tuple[Finding, ...]:
    """Return every place of every habit. Each module is parsed once, and its tree freed again."""
    found = []
    gc.disable()  # the trees have no cycles, and collections make up most of the time
    try:
        for room in LIMITS:
            for path in room_files(room):
                text = path.read_text(encoding="utf-8")
                habits = list(text_habits(path, text))
                if path.suffix == ".py":
                    tree = ast.parse(text)
                    habits += python_habits(tree)
                    if room in VISIBLE:
                        habits += message_habits(messages(tree))
                elif path.suffix == ".html" and room in VISIBLE:
                    lines = PLACEHOLDER.sub("", text).splitlines()
                    habits += message_habits(iter(enumerate(lines, 1)))
                name = path.relative_to(ROOT)
                found += [
                    Finding(room, habit, f"{name}:{line}", said) for habit, line, said in habits
                ]
    finally:
        gc.enable()
    return tuple(found)


def counts() -> Counter[tuple[str, str]]:
    """Return how often each habit is found in each room."""
    return Counter((finding.room, finding.habit) for finding in findings())


def places(room: str, habit: str) -> list[str]:
    """Return the places of a habit in a room, one line each."""
    return [
        f"{finding.place}: {finding.text}"
        for finding in findings()
        if finding.room == room and finding.habit == habit
    ]


def test_each_package_has_limits() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"ackproof"} <= set(LIMITS)


@pytest.mark.parametrize("habit", HABITS)
def test_habit_is_no_more_frequent_than_its_limit(habit: str) -> None:
    counted = counts()
    for room, limits in LIMITS.items():
        limit = limits[HABITS.index(habit)]
        found = counted[room, habit]
        listed = "\n".join(places(room, habit)[:SHOWN])
        assert found <= limit, f"{room} has {found} {habit}, not {limit} (docs/style.md):\n{listed}"


def test_messages_to_users_have_no_old_habit() -> None:
    found = [f"{one.place}: {one.text}" for one in findings() if one.habit == "messages"]
    assert not found, "\n".join(["say it in plain English (docs/style.md):", *found[:SHOWN]])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('raise E(f"nobody answers at {host}")', ["nobody answers at "]),
        ('raise E("no server answers")', []),
        ('"""Nobody reads this docstring."""', []),
        ('KEY = "told nobody"', []),
    ],
)
def test_messages_are_the_strings_that_are_no_docstrings(source: str, found: list[str]) -> None:
    assert [text for *_, text in message_habits(messages(ast.parse(source)))] == found


@pytest.mark.parametrize(
    ("name", "riddle"),
    [
        ("test_who_goes_by_one_is_found", True),
        ("test_a_record_that_was_told", True),
        ("test_leader_rejects_fetch_with_stale_epoch", False),
        ("test_whole_log_is_read", False),
    ],
)
def test_riddles_are_distinguished_from_names(name: str, riddle: bool) -> None:
    assert bool(RIDDLE.match(name)) is riddle


@pytest.mark.parametrize(
    ("heading", "clause"),
    [
        ("What is promised, and when", True),
        ("Records that are deleted", True),
        ("Delivery guarantees", False),
        ("How to read a report", False),
    ],
)
def test_clauses_are_distinguished_from_noun_phrases(heading: str, clause: bool) -> None:
    assert bool(CLAUSE.match(heading)) is clause


def test_names_in_pages_are_no_words() -> None:
    page = "`member-leaves-and-nobody-rebalances` and nobody\n"
    assert list(text_habits(Path("page.md"), page)) == [("words", 1, "nobody")]


def test_headings_in_code_blocks_are_skipped() -> None:
    page = "# Targets\n\n```yaml\n# what is a comment\n```\n\n## What it does\n"
    assert list(text_habits(Path("page.md"), page)) == [("headings", 7, "What it does")]


def table() -> list[str]:
    """Return the lines of ``LIMITS`` with the present counts."""
    counted = counts()
    return [
        f'    "{room}": ({", ".join(str(counted[room, habit]) for habit in HABITS)}),'
        for room in LIMITS
    ]


if __name__ == "__main__":
    chosen = [
        f"{habit}: {place}"
        for room in sys.argv[1:]
        for habit in HABITS
        for place in places(room, habit)
    ]
    sys.stdout.write("\n".join(chosen if sys.argv[1:] else table()) + "\n")
