"""YAML is read once, with the place of everything, and nothing in it is guessed at."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.config.yaml_document import InvalidYaml, Position, dump, read

PLAIN = [
    ("true", True),
    ("False", False),
    ("~", None),
    ("null", None),
    ("", None),
    ("7", 7),
    ("-7", -7),
    ("0x1f", 31),
    ("0.10", 0.1),
    ("1.5e+3", 1500.0),
    (".inf", float("inf")),
    ("'yes'", "yes"),
    ('"010"', "010"),
    ("y", "y"),
    ("5s", "5s"),
    ("0.10.2", "0.10.2"),
    ("!!str 5", 5),
]

DOUBTFUL = [
    ("yes", "yes means true in YAML 1.1, but 'yes' in YAML 1.2"),
    ("No", "No means false in YAML 1.1, but 'No' in YAML 1.2"),
    ("on", "on means true in YAML 1.1"),
    ("OFF", "OFF means false in YAML 1.1"),
    ("010", "010 means 8 in YAML 1.1, but 10 in YAML 1.2"),
    ("0o17", "0o17 means '0o17' in YAML 1.1, but 15 in YAML 1.2"),
    ("0b11", "0b11 means 3 in YAML 1.1"),
    ("1:30", "1:30 means 90 in YAML 1.1, but '1:30' in YAML 1.2"),
    ("1_000", "1_000 means 1000 in YAML 1.1"),
    ("1e3", "1e3 means '1e3' in YAML 1.1, but 1000.0 in YAML 1.2"),
    ("2024-01-31", "2024-01-31 means something else in YAML 1.1, but '2024-01-31' in YAML 1.2"),
    ("2024-02-31", "2024-02-31 means something else"),
    ("=", "= means something else"),
    ("9" * 5_000, "9" * 100 + "... means something else"),
    ("!!str yes", "tags are not read: leave tag:yaml.org,2002:str out"),
    ("!thing {a: b}", "tags are not read: leave !thing out"),
]


@pytest.mark.parametrize(("written", "meant"), PLAIN)
def test_unambiguous_scalar_is_read_as_meant(written: str, meant: object) -> None:
    found = read(f"a: {written}")
    assert found.content == {"a": meant}
    assert type(found.content["a"]) is type(meant)
    assert [slip.reason[:4] for slip in found.slips] == (["tags"] if "!!" in written else [])


@pytest.mark.parametrize(("written", "told"), DOUBTFUL)
def test_ambiguous_scalar_is_a_slip(written: str, told: str) -> None:
    slip = read(f"b: 1\na: {written}").slips[0]
    assert slip.position == Position(2, 4)
    assert slip.reason.startswith(told)


def test_keys_are_text() -> None:
    found = read("on: 1\n010: 2\n1.5: 3\ntrue: 4\n")
    assert found.content == {"on": 1, "010": 2, "1.5": 3, "true": 4}
    assert not found.slips


@pytest.mark.parametrize(
    ("text", "position", "told"),
    [
        ("a: 1\nb: 2\na: 3", Position(3, 1), "is given twice; the first is in line 1"),
        ("a: {b: 1, 'b': 2}", Position(1, 11), "is given twice; the first is in line 1"),
        ("a: &x {b: 1}\nc: {<<: *x}", Position(2, 5), "YAML 1.2 has no merge"),
        ("? [a]\n: 1", Position(1, 3), "a key is a word"),
    ],
)
def test_wrong_keys(text: str, position: Position, told: str) -> None:
    (slip,) = read(text).slips
    assert slip.position == position
    assert slip.reason.startswith(told)


def test_a_merge_key_in_quotes_is_a_key() -> None:
    assert read("'<<': 1").content == {"<<": 1}


def test_positions() -> None:
    found = read("a: 1\nb:\n  c: [x, y]\n  d:\n    - e\n    - f: 2\n")
    assert found.positions[("a",)] == Position(1, 4)
    assert found.positions[("b",)] == Position(2, 1), "its own line, not that of what it holds"
    assert found.positions[("b", "c")] == Position(3, 6)
    assert found.positions[("b", "c", 1)] == Position(3, 10)
    assert found.positions[("b", "d", 1, "f")] == Position(6, 10)
    assert found.keys[("b", "d", 1, "f")] == Position(6, 7)


def test_alias_is_replaced_by_its_anchor() -> None:
    assert read("a: &x [1, 2]\nb: *x").content == {"a": [1, 2], "b": [1, 2]}


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    lines = ["a: &x0 [1, 1]"]
    lines += [f"b{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, 35)]
    with pytest.raises(InvalidYaml, match="aliases make it unreasonably large"):
        read("\n".join(lines))


@given(st.text(max_size=200))
def test_any_text_is_read_or_is_not_yaml(text: str) -> None:
    with contextlib.suppress(InvalidYaml):
        read(text)


@given(st.text(alphabet=st.sampled_from("019eExo._:-+abtrueyn~<='\" \n#")))
def test_text_that_is_written_reads_back_as_text(text: str) -> None:
    found = read(dump({"a": text, text: [text]}))
    assert found.content == {"a": text, text: [text]}
    assert not found.slips


@given(
    st.one_of(
        st.integers(),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    )
)
def test_values_that_are_written_read_back(value: object) -> None:
    found = read(dump({"a": value}))
    assert found.content == {"a": value}
    assert type(found.content["a"]) is type(value)
    assert not found.slips
