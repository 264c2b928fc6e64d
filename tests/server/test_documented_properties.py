"""docs/broker-properties.md says what the broker does."""

import re
from pathlib import Path

from ackproof.broker.config import DYNAMIC, PRESETS, SYNONYMS, BrokerConfig, text

PAGE = Path(__file__).parents[2] / "docs" / "broker-properties.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def _names() -> set[str]:
    return {str(field.alias) for field in BrokerConfig.model_fields.values()}


def test_every_property_is_documented_with_its_default() -> None:
    named = [*rows("property"), *rows("property of Kafka")]
    documented = {code(name)[0]: "".join(code(default)) for name, default, *_ in named}
    assert len(documented) == len(named)
    fields = BrokerConfig.model_fields.values()
    expected = {f.alias: "" if f.is_required() else text(f.default) or "" for f in fields}
    assert documented == expected


def test_each_property_that_kafka_lacks_has_a_meaning() -> None:
    explained = {code(name)[0] for name, _, meaning in rows("property") if len(meaning) > 10}
    assert len(explained) == len(rows("property"))
    assert {name for name in _names() if name.startswith("ackproof.")} <= explained


def test_the_properties_that_change_at_run_time_are_marked() -> None:
    named = [*rows("property"), *rows("property of Kafka")]
    assert {code(name)[0] for name, *_ in named if name.endswith("*")} == DYNAMIC


def test_every_topic_setting_is_documented_with_its_default() -> None:
    documented = {code(name)[0]: tuple(code(names)) for name, names in rows("topic setting")}
    assert documented == dict(SYNONYMS)


def test_each_generation_is_documented_with_its_settings() -> None:
    documented = {
        code(name)[0]: dict(setting.split("=") for setting in code(settings))
        for name, settings, _ in rows("generation")
    }
    assert documented == PRESETS
