"""docs/compatibility.md says of each API what the broker's table says, and no client what it could
not have done."""

import re
from pathlib import Path

import pytest

from ackproof.broker.server.requests.dispatch import APIS, SERVED

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]


def versions(text: str) -> range:
    """Return the versions from one number to another, or of one alone."""
    first, *last = map(int, re.findall(r"\d+", text))
    return range(first, last[0] + 1 if last else first + 1)


def test_compatibility_table_equals_the_served_versions() -> None:
    documented = [(int(key), name, versions(offered)) for key, name, offered, *_ in ROWS]
    assert documented == [
        (key, APIS[key].request.__name__.removesuffix("Request"), offered)
        for key, offered in sorted(SERVED.items())
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_clients_used_only_offered_versions(row: list[str]) -> None:
    offered, seen = versions(row[2]), row[3:]
    assert all(int(version) in offered for cell in seen for version in re.findall(r"\d+", cell))
