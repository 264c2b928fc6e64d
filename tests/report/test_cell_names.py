"""Names of cells in words: what differs, unique, and short enough to read."""

from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.validation import load
from ackproof.harness.report.cell_names import in_words

NIGHTLY = Path(__file__).parents[2] / "campaigns/nightly.yaml"
ALL = {"acks": "all", "min.insync.replicas": 2}


def test_a_single_cell_is_named_by_acks_and_min_isr() -> None:
    settings = {**ALL, "enable.idempotence": True, "partitions": 3}
    assert in_words({(1, "c"): settings}) == {(1, "c"): "acks=all, min ISR 2"}


def test_cells_with_equal_settings_are_named_with_run_or_stable_name() -> None:
    assert in_words({(1, "a"): ALL, (2, "a"): ALL}) == {
        (1, "a"): "run 1: acks=all, min ISR 2",
        (2, "a"): "run 2: acks=all, min ISR 2",
    }
    assert set(in_words({(1, "a"): ALL, (1, "b"): ALL}).values()) == {
        "acks=all, min ISR 2 (a)",
        "acks=all, min ISR 2 (b)",
    }
    assert in_words({(1, "a"): {}, (1, "b"): {}}) == {(1, "a"): "a", (1, "b"): "b"}
    assert in_words({}) == {}


def test_clusters_of_a_comparison_are_named_without_their_run() -> None:
    cells = {(run, "a"): {**ALL, "cluster": name} for run, name in ((1, "old"), (2, "new"))}
    assert list(in_words(cells).values()) == [
        "acks=all, min ISR 2, old",
        "acks=all, min ISR 2, new",
    ]


def test_cells_of_nightly_are_named_by_their_differences() -> None:
    cells = expand(load(NIGHTLY).cells)
    names = in_words({(1, cell.name): cell.settings for cell in cells})
    assert len(cells) == len(set(names.values())) == 17
    assert names[1, "acks-all.minisr-2.idempotence-true"] == "acks=all, min ISR 2, idempotent"
    assert names[1, "acks-0.minisr-1"] == "acks=0, min ISR 1"
    assert names[1, "acks-1.minisr-2.unclean-true"] == "acks=1, min ISR 2, unclean election"
    assert names[1, "acks-all.minisr-2.flush-messages-1"] == "acks=all, min ISR 2, flush.messages=1"
    assert max(map(len, names.values())) <= 55


VALUES = st.sampled_from(["1", "2", "all", True, False, 1, "x (b)"])
SETTINGS = st.dictionaries(
    st.sampled_from(["acks", "enable.idempotence", "partitions", "topic.x", "cluster"]), VALUES
)
KEYS = st.sampled_from(list(product((1, 2), "abc")))


@given(st.dictionaries(KEYS, SETTINGS))
def test_names_are_unique(cells: dict[tuple[int, str], dict[str, str | bool]]) -> None:
    names = in_words(cells)
    assert names.keys() == cells.keys()
    assert len(set(names.values())) == len(cells)
    assert all(names.values())
