"""A wrong name is told with those that there are, the nearest spelling first."""

import pytest

from ackproof.config.suggestions import closest, meant_of, nearest_first, there_are

TOPICS = ("acks-0-minisr-1", "acks-1-minisr-1", "acks-all-minisr-2", "orders")


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("order", "orders"),
        ("Orders_", "orders"),
        ("acks-all-minsr-2", "acks-all-minisr-2"),
        ("acks_1_minisr_1", "acks-1-minisr-1"),
    ],
)
def test_nearest_spelling_comes_first_and_is_suggested(word: str, first: str) -> None:
    found = nearest_first(word, TOPICS)
    assert sorted(found) == sorted(TOPICS)
    assert found[0] == first == closest(word, TOPICS)
    assert meant_of(word, TOPICS) == f"did you mean {first}? There are {', '.join(found)}"


def test_names_that_look_alike_keep_their_order() -> None:
    assert there_are("broker-9", ["zookeeper-1", "broker-1", "broker-2", "broker-3"]) == (
        "there are broker-1, broker-2, broker-3, zookeeper-1"
    )


def test_long_list_of_names_is_cut_after_the_nearest() -> None:
    names = [f"topic-{number}" for number in range(200)]
    told = meant_of("topic-150x", names)
    assert told.startswith("did you mean topic-150? There are topic-150, ")
    assert told.endswith(", ... (200 in all)")
    assert told.count("topic-") == 21


def test_nothing_alike_names_all_and_no_name_is_none() -> None:
    assert meant_of("zzz", ["orders"]) == "there is orders"
    assert there_are("zzz", []) == "there is none"
