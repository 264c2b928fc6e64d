"""Tests that `make test` leaves out are run every night, by a target of nightly.yml."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BY_HAND = {"jepsen": "Jepsen is no package that could be fetched: JEPSEN_CLASSPATH names it"}


def recipes() -> dict[str, str]:
    """Return the recipe of each target of the Makefile."""
    of: dict[str, str] = {}
    targets: list[str] = []
    for line in (ROOT / "Makefile").read_text().splitlines():
        if rule := re.match(r"([\w-]+(?: [\w-]+)*):(?!=)", line):
            targets = rule[1].split()
        elif line.startswith("\t"):
            of.update({target: of.get(target, "") + line[1:] + "\n" for target in targets})
    return of


def selections(target: str, of: dict[str, str]) -> Iterator[str]:
    """Yield the expressions of markers that a target, or one that it calls, gives to pytest."""
    recipe = of[target].replace("$(@:-tests=)", target.removesuffix("-tests"))
    for quoted, word in re.findall(r'/pytest\S* .*?-m (?:"([^"]+)"|(\w+))', recipe):
        yield (quoted or word).replace("$$where", "")
    for line in recipe.splitlines():
        if "$(MAKE)" in line:
            called = line.partition("$(MAKE)")[2].split()
            yield from (it for name in called if name in of for it in selections(name, of))


def nightly() -> list[str]:
    """Return the targets of the suites of nightly.yml."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]
    return [entry.split()[0] for entry in jobs["suite"]["strategy"]["matrix"]["target"]]


def selects(expression: str, markers: set[str], known: list[str]) -> bool:
    """Return whether an expression of markers selects a test with these markers."""
    return bool(eval(expression, {"__builtins__": {}}, {name: name in markers for name in known}))


def test_each_test_that_make_test_leaves_out_is_run_every_night(
    pytestconfig: pytest.Config,
) -> None:
    """Whatever combination of these markers a test has."""
    left_out = re.findall(r"not (\w+)", " ".join(pytestconfig.getini("addopts")))
    assert {"long", "docker", *BY_HAND} <= set(left_out)
    of = recipes()
    at_night = [it for target in nightly() for it in selections(target, of)]
    night_markers = [name for name in left_out if name not in BY_HAND]
    missed = [
        markers
        for size in range(1, len(night_markers) + 1)
        for markers in combinations(night_markers, size)
        if not any(selects(it, set(markers), left_out) for it in at_night)
    ]
    assert missed == []
