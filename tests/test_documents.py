"""The tables of the documents are whole, and what they list is what there is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ackproof.harness.cli import cli
from ackproof.harness.commands.campaigns import TUTORIAL

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

DECISION_WORDS_MAX = 300

_RULE = re.compile(r"^\|(?: *:?-+:? *\|)+$")
_CELL_END = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"^```")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def tables(page: Path) -> list[list[tuple[int, str]]]:
    """Neighbouring lines that begin with a bar, outside of code, with their numbers."""
    found: list[list[tuple[int, str]]] = []
    fenced, before = False, False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fenced ^= bool(_FENCE.match(line))
        row = line.startswith("|") and not fenced
        if row and not before:
            found.append([])
        if row:
            found[-1].append((number, line))
        before = row
    return found


def test_pages_are_found() -> None:
    assert {"README.md", "docs/guarantees.md"} <= {name(page) for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_have_a_head_and_rows_of_its_width(page: Path) -> None:
    for table in tables(page):
        number, head = table[0]
        ruled = len(table) > 1 and _RULE.match(table[1][1])
        assert ruled, f"line {number} is in no table"
        width = len(_CELL_END.findall(head))
        wrong = [number for number, line in table if len(_CELL_END.findall(line)) != width]
        assert not wrong, f"lines {wrong} are not as wide as the head in line {number}"


def test_detection_page_has_a_row_for_each_mutant_and_no_other() -> None:
    page = (ROOT / "docs/detection.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))
    patches = {patch.stem for patch in (ROOT / "tools/mutation/catalogue").glob("*.patch")}
    assert rows == patches, "measure again: make mutation"


def test_readme_counts_nothing_of_the_catalogues() -> None:
    """A number of bugs, faults or checkers is out of date with the next one."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    stale = re.compile(r"\b\d+ (?:times over|bugs|faults|checkers|guarantees|stories)\b")
    counted = [line for line in page.splitlines() if stale.search(line)]
    assert not counted


def nav_pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the pages of a part of the site's navigation."""
    for entry in entries:
        for page in entry.values():
            if isinstance(page, list):
                yield from nav_pages(page)
            else:
                yield page


def test_each_page_is_in_site_navigation_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / site["docs_dir"]
    pages = sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))
    assert sorted(nav_pages(site["nav"])) == pages


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_to_files_of_the_checkout(page: Path) -> None:
    links = _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    assert not [link for link in links if not (page.parent / link).exists()]


def test_glossary_is_in_alphabetical_order_with_a_source_for_each_term() -> None:
    (entries,) = tables(ROOT / "docs/glossary.md")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for _, line in entries[2:]]
    terms = [row[0].lower() for row in rows]
    assert terms == sorted(set(terms))
    assert all(meaning.endswith(".") and source for _, meaning, source in rows)


def test_demo_ends_with_a_word_that_explain_knows() -> None:
    (word,) = re.findall(r"ackproof explain (\w+)", TUTORIAL)
    assert CliRunner().invoke(cli, ["explain", word]).exit_code == 0


def test_decisions_are_short_and_in_the_navigation_with_their_titles() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs/decisions").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        number, _, title = text.splitlines()[0].removeprefix("# ").partition(": ")
        assert page.name.startswith(f"{number}-")
        assert f'- "{number}: {title}": decisions/{page.name}' in site
        assert re.findall("^## (.*)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ]
        assert len(text.split()) <= DECISION_WORDS_MAX
