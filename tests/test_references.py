"""docs/references.md names every module and test of the five documents' mechanisms as it is."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and line.count("|") == 6 and not line.startswith("| ---")
]
MECHANISMS = [row for row in ROWS if row[0] != "section"]


def test_every_named_module_and_test_exists() -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|yaml))`", PAGE))
    assert len(named) > 100
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []


def test_every_mechanism_has_module_and_test_or_is_left_out() -> None:
    """A row without a module is left out, and says why."""
    assert len(MECHANISMS) > 70
    for section, mechanism, module, test, comparison in MECHANISMS:
        assert section, mechanism
        assert bool(module) == bool(test) or comparison.startswith("left out"), mechanism
        assert module or comparison.startswith("left out"), mechanism
