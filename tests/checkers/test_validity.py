"""Validity of guarantees, by the events of the run: each case of docs/guarantees.md, with a
neighbouring case in which the guarantee is valid and can be broken."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.context.faults import CLOCKS, ORDERS
from ackproof.checkers.context.surroundings import DISKS_THAT_SERVE
from ackproof.checkers.context.validity import PAUSE_CLIENT
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.nemesis import FAULTS
from ackproof.nemesis.clock import CLOCKS as CLOCK_FAULTS
from tests.support.builders.checked_runs import checked
from tests.support.builders.histories import (
    ACKS_0,
    ACKS_1,
    AFTER,
    ALL,
    BEFORE,
    DURING,
    FINISHED,
    KILL,
    T0,
    UNCLEAN,
    Made,
    MadeRun,
    a_fault,
    at,
    cell,
    connection,
    entry,
    kept,
    losing,
    office,
    send,
    state,
    write_campaign,
)

PASS, FAIL, NOT_GUARANTEED, INCONCLUSIVE = Verdict

FIRST, SECOND_, THIRD, LAST = 0, 1, 2, 3
"""Offsets of records acked before, during, after the kill and its reach, and much later."""
WELL = kept(BEFORE, DURING, AFTER, 100)

STAYS = [state(-5, 1, 0, (1, 2, 3))]
TAKEN = [state(-5, 1, 0, (1, 2, 3)), state(13, 2, 1, (2, 3)), state(22, 2, 1, (2, 3, 1))]
"""The kill of 1 makes 2 the leader, cleanly; 1 comes back."""


def concluded(
    directory: Path, settings: Any, made: Made, cluster: Any, faults: Any = KILL, **changes: Any
) -> CampaignResult:
    given = {"cells": [cell(settings)], "cluster": cluster, "faults": faults, **changes}
    return checked(write_campaign(directory, MadeRun(partitions={("t", 0): made}, **given)))


def no_loss(result: CampaignResult) -> Guarantee:
    return result.cells[0].guarantees[0]


# --- acks=all: one member of the ISR keeps its data ---------------------------------------------


@pytest.mark.parametrize("offset", [FIRST, SECOND_, THIRD, LAST])
def test_acks_all_guarantee_is_valid_after_a_leader_change(tmp_path: Path, offset: int) -> None:
    result = concluded(tmp_path, ALL, losing(WELL, offset), TAKEN)
    assert result.verdict is FAIL
    assert no_loss(result).broken == 1
    assert "1 of 4 acked records lost" in no_loss(result).reason


def strike(since: float = 10, until: float = 20, **changes: Any) -> list[dict[str, Any]]:
    return a_fault(since, until, fault="power-loss", destroys="unsynced", **changes)


ALONE = [
    state(-5, 1, 0, (1, 2, 3)),
    state(6, 1, 0, (1,)),
    state(13, -1, 1, (1,)),
    state(19, 1, 2, (1,)),
    state(22, 1, 2, (1, 2, 3)),
]
"""The ISR has shrunk to 1, which is then struck from 10 to 20."""


def test_a_loss_of_the_last_of_the_isr_is_not_promised(tmp_path: Path) -> None:
    """KIP-966."""
    result = concluded(tmp_path, ALL, losing(kept(BEFORE, 8, AFTER, 100), 1), ALONE, strike())
    assert result.verdict is NOT_GUARANTEED
    assert result.cells[0].lost == 1
    assert (
        "power-loss#1 took data from the last members of the ISR [1]" in result.cells[0].reasons[0]
    )
    assert "2 of 4 acked records are not promised" in result.cells[0].reasons[0]


@pytest.mark.parametrize("fault", ["kill", "operator-roll", "unordered-restart"])
def test_loss_with_the_storage_of_pods_is_not_promised(tmp_path: Path, fault: str) -> None:
    kill = a_fault(10, 20, destroys="all", fault=fault)
    result = concluded(tmp_path, ALL, losing(kept(BEFORE, 8, AFTER, 100), 1), ALONE, kill)
    assert result.verdict is NOT_GUARANTEED
    taken = f"{fault}#1, with the storage of the pods that it ended, took data from the last member"
    assert f"{taken}s of the ISR [1]" in result.cells[0].reasons[0]


@pytest.mark.parametrize(("struck", "verdict"), [("broker-1", NOT_GUARANTEED), ("broker-2", FAIL)])
def test_last_leader_of_an_empty_isr_was_its_last_member(
    tmp_path: Path, struck: str, verdict: Verdict
) -> None:
    """KIP-966: it is killed, the ISR is empty, and then power fails, of it or of another; it is
    elected."""
    emptied = [*ALONE[:2], state(8, -1, 1, ()), *ALONE[3:]]
    made = losing(kept(BEFORE, 7, AFTER, 100), 1)
    result = concluded(tmp_path, ALL, made, emptied, strike(servers=(struck,)))
    assert result.verdict is verdict


def test_record_acked_after_the_loss_is_guaranteed_again(tmp_path: Path) -> None:
    result = concluded(tmp_path, ALL, losing(kept(BEFORE, 8, AFTER, 100), 2), ALONE, strike())
    assert result.verdict is FAIL
    assert no_loss(result).broken == 1


def test_that_loss_is_promised_where_another_was_in_the_isr(tmp_path: Path) -> None:
    result = concluded(tmp_path, ALL, losing(WELL, FIRST), TAKEN, strike())
    assert result.verdict is FAIL


def test_the_whole_isr_struck_at_once_is_not_promised(tmp_path: Path) -> None:
    faults = strike(servers=("broker-1", "broker-2", "broker-3"))
    made = losing(kept(BEFORE, AFTER, 100), 0)
    assert concluded(tmp_path, ALL, made, STAYS, faults).verdict is NOT_GUARANTEED


TWO = [
    *strike(10, 20, servers=("broker-1",)),
    *strike(50, 60, fault_id=2, servers=("broker-2",)),
]
HEALED_BETWEEN = [
    state(-5, 1, 0, (1, 2)),
    state(13, 2, 1, (2,)),
    state(22, 2, 1, (2, 1)),
    state(53, 1, 2, (1,)),
    state(62, 1, 2, (1, 2)),
]
TWO_LOSSES = kept(BEFORE, DURING, 30, 55, 100)


@pytest.mark.parametrize("offset", range(5))
def test_two_losses_one_after_the_other_healed_between_are_promised(
    tmp_path: Path, offset: int
) -> None:
    minimum = {**ALL, "min.insync.replicas": 1, "replication.factor": 2}
    whole = concluded(tmp_path / "kept", minimum, TWO_LOSSES, HEALED_BETWEEN, TWO)
    assert whole.verdict is PASS
    lost = concluded(tmp_path / "lost", minimum, losing(TWO_LOSSES, offset), HEALED_BETWEEN, TWO)
    assert lost.verdict is FAIL


def test_two_losses_without_a_return_between_are_not(tmp_path: Path) -> None:
    """1 is still in the ISR as it was when it lost its data; then 2 loses its own."""
    cluster = [state(-5, 1, 0, (1, 2))]
    minimum = {**ALL, "min.insync.replicas": 1, "replication.factor": 2}
    made = losing(kept(BEFORE, 30, 100), 0)
    assert concluded(tmp_path, minimum, made, cluster, TWO).verdict is NOT_GUARANTEED


def test_a_damaged_member_that_is_left_alone_ends_the_promise(tmp_path: Path) -> None:
    """2 lost its data and stayed in the ISR; then 1, which had everything, is killed."""
    cluster = [state(-5, 1, 0, (1, 2)), state(53, 2, 1, (2,)), state(70, 2, 1, (2, 1))]
    faults = [*strike(10, 20, servers=("broker-2",)), *a_fault(50, 60, fault_id=2)]
    settings = {**ALL, "min.insync.replicas": 1, "replication.factor": 2}
    made = kept(BEFORE, DURING, 30, 55, 100)
    early = concluded(tmp_path / "early", settings, losing(made, 0), cluster, faults)
    assert early.verdict is NOT_GUARANTEED
    later = concluded(tmp_path / "later", settings, losing(made, 2), cluster, faults)
    assert later.verdict is FAIL


def test_a_disk_lost_before_any_ack_takes_nothing(tmp_path: Path) -> None:
    """The topic was there already, and empty; its acks begin at 5 seconds."""
    cluster = [state(-50, 1, 0, (1,)), state(-20, 1, 0, (1, 2, 3))]
    faults = [*strike(-40, -30), *a_fault(10, 20, fault_id=2)]
    made = kept(-45, BEFORE, DURING, AFTER)
    made = made.but(sends=[*made.sends[2:]], log=made.log[1:], start=1)
    empty = made.but(sends=[send("invoke", 9, 0, at(-49)), *made.sends])
    result = concluded(tmp_path / "kept", ALL, empty, cluster, faults)
    assert no_loss(result).promised
    # Nothing was acked before that fault, so it shows nothing: but what is lost was promised.
    lost = concluded(tmp_path / "lost", ALL, losing(empty, 2), cluster, faults)
    assert lost.verdict is FAIL


def test_a_disk_of_a_broker_without_a_replica_takes_nothing(tmp_path: Path) -> None:
    cluster = [state(-5, 1, 0, (1,))]
    elsewhere = strike(servers=("broker-7",), partitions=("u-0",))
    made = kept(BEFORE, DURING, AFTER, 100)
    faults = [*elsewhere, *a_fault(50, 60, fault_id=2)]
    one = {**ALL, "min.insync.replicas": 1, "replication.factor": 1}
    assert concluded(tmp_path / "kept", one, made, cluster, faults).verdict is PASS
    lost = concluded(tmp_path / "lost", one, losing(made, 0), cluster, faults)
    assert lost.verdict is FAIL


FLUSHED = {"topic.flush.messages": 1}


@pytest.mark.parametrize("settings", [ALL, ACKS_1], ids=["all", "1"])
def test_record_flushed_before_its_ack_survives_power_loss(tmp_path: Path, settings: Any) -> None:
    everybody = strike(servers=("broker-1", "broker-2", "broker-3"))
    made = losing(kept(BEFORE, AFTER, 100), 0)
    for own, verdict in ((FLUSHED, FAIL), ({}, NOT_GUARANTEED)):
        directory = tmp_path / verdict
        result = concluded(directory, {**settings, **own}, made, STAYS, everybody)
        assert result.verdict is verdict
    replaced = [{**row, "destroys": "all"} for row in everybody]
    result = concluded(tmp_path / "all", {**settings, **FLUSHED}, made, STAYS, replaced)
    assert result.verdict is NOT_GUARANTEED


def flipped(broker: int, **changes: Any) -> list[dict[str, Any]]:
    return a_fault(
        10, 20, fault="bit-flip", destroys="bits", servers=[f"broker-{broker}"], **changes
    )


@pytest.mark.parametrize("settings", [ALL, ACKS_1], ids=["all", "1"])
def test_record_damaged_on_its_leader_is_not_guaranteed(tmp_path: Path, settings: Any) -> None:
    result = concluded(tmp_path, settings, losing(WELL, FIRST), STAYS, flipped(1))
    assert result.verdict is NOT_GUARANTEED
    assert "bit-flip#1 damaged data that one of its leaders had synced" in no_loss(result).reason


def test_record_acked_after_the_damage_is_guaranteed(tmp_path: Path) -> None:
    assert concluded(tmp_path, ALL, losing(WELL, LAST), STAYS, flipped(1)).verdict is FAIL


def test_damage_to_one_that_never_leads_takes_nothing(tmp_path: Path) -> None:
    assert concluded(tmp_path, ALL, losing(WELL, FIRST), STAYS, flipped(2)).verdict is FAIL


def test_damage_to_all_but_the_leader_takes_nothing(tmp_path: Path) -> None:
    """Test damage to synced data. With lost unsynced data, a follower would truncate its log and
    fetch."""
    faults = flipped(2) + [{**row, "fault_id": 2} for row in flipped(3)]
    assert concluded(tmp_path, ALL, losing(WELL, FIRST), STAYS, faults).verdict is FAIL


def test_to_leave_the_isr_and_come_back_mends_no_damage(tmp_path: Path) -> None:
    later = [*TAKEN, state(40, 1, 2, (1, 2, 3))]
    assert concluded(tmp_path, ALL, losing(WELL, FIRST), TAKEN, flipped(3)).verdict is FAIL
    result = concluded(tmp_path / "later", ALL, losing(WELL, FIRST), later, flipped(1))
    assert result.verdict is NOT_GUARANTEED


def test_damage_that_is_not_proven_is_inconclusive(tmp_path: Path) -> None:
    unproven = [{**row, "proven": row["event"] == "healed"} for row in flipped(1)]
    result = concluded(tmp_path, ALL, losing(WELL, FIRST), STAYS, unproven)
    assert result.verdict is INCONCLUSIVE
    assert "it is unknown whether the guarantee applied" in "".join(result.cells[0].reasons)


def test_loss_with_unobserved_isr_is_inconclusive(tmp_path: Path) -> None:
    blind = [*STAYS, connection(8, "zookeeper-lost"), connection(18, "zookeeper-back")]
    result = concluded(tmp_path / "lost", ALL, losing(WELL, FIRST), blind, strike())
    assert result.verdict is INCONCLUSIVE
    assert "it is unknown whether the guarantee applied" in "".join(result.cells[0].reasons)
    assert concluded(tmp_path / "kept", ALL, WELL, blind, strike()).verdict is PASS


def test_a_loss_in_a_fault_that_is_not_proven_is_inconclusive(tmp_path: Path) -> None:
    unproven = [{**row, "proven": row["event"] == "healed"} for row in strike()]
    made = losing(kept(BEFORE, 8, AFTER, 100), 1)
    result = concluded(tmp_path, ALL, made, ALONE, unproven)
    assert result.verdict is INCONCLUSIVE
    assert "it is unknown whether the guarantee applied" in "".join(result.cells[0].reasons)


def test_a_record_near_the_loss_is_not_called_broken(tmp_path: Path) -> None:
    """Acked, by the client's clock, half a second after the disk was gone."""
    near = losing(kept(BEFORE, 8, 10.6, AFTER, 100), 2)
    assert concluded(tmp_path, ALL, near, ALONE, strike()).verdict is NOT_GUARANTEED


# --- unclean elections --------------------------------------------------------------------------

ONE_LEFT = [state(-5, 1, 0, (1, 2, 3)), state(6, 1, 0, (1,))]


def elected(epoch: int, *between: dict[str, Any]) -> list[dict[str, Any]]:
    """1, the last of the ISR, is killed, and 2 elected."""
    return [*ONE_LEFT, *between, state(14, 2, epoch, (2,)), state(22, 2, epoch, (2, 1, 3))]


MINIMAL = {**UNCLEAN, "min.insync.replicas": 1}


def test_unclean_election_allowed_and_none_took_place(tmp_path: Path) -> None:
    assert concluded(tmp_path / "kept", MINIMAL, WELL, TAKEN).verdict is PASS
    result = concluded(tmp_path / "lost", MINIMAL, losing(WELL, FIRST), TAKEN)
    assert result.verdict is FAIL


def test_unclean_election_ends_the_guarantee_for_earlier_acks(tmp_path: Path) -> None:
    result = concluded(tmp_path / "before", MINIMAL, losing(WELL, FIRST), elected(1))
    assert result.verdict is NOT_GUARANTEED
    assert "broker-2 was elected outside the ISR [1] in epoch 1" in result.cells[0].reasons[0]
    after = concluded(tmp_path / "after", MINIMAL, losing(WELL, LAST), elected(1))
    assert after.verdict is FAIL


def test_election_of_an_eligible_replica_keeps_the_guarantee(tmp_path: Path) -> None:
    """KIP-966: 2 left an ISR that was below min.insync.replicas, so it has all acked records."""
    eligible = [{**row, "elr": [2]} for row in elected(1)[:2]]
    made = losing(WELL, FIRST)
    assert concluded(tmp_path, MINIMAL, made, [*eligible, *elected(1)[2:]]).verdict is FAIL


@pytest.mark.parametrize(("leader", "verdict"), [(1, FAIL), (2, NOT_GUARANTEED)])
def test_last_member_of_an_empty_isr_may_be_elected(
    tmp_path: Path, leader: int, verdict: Verdict
) -> None:
    """Killed brokers are not eligible. Kafka elects the last leader all the same (KIP-966)."""
    gone = [state(9, -1, 1, (), elr=[1]), state(12, -1, 1, (), elr=[])]
    back = state(14, leader, 2, (leader,)), state(22, leader, 2, (2, 1, 3))
    made = losing(WELL, FIRST)
    assert concluded(tmp_path, MINIMAL, made, [*ONE_LEFT, *gone, *back]).verdict is verdict


def test_the_deposed_leader_acks_until_it_hears(tmp_path: Path) -> None:
    """Acked by 1 while it was cut off, three seconds after 2 was elected outside the ISR."""
    made = losing(kept(BEFORE, 17, AFTER, 100), 1)
    assert concluded(tmp_path, MINIMAL, made, elected(1)).verdict is NOT_GUARANTEED


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (elected(3), "outside the ISR may have been missed between epochs 0 and 3"),
        (
            elected(1, connection(9, "zookeeper-lost"), connection(12, "zookeeper-back")),
            "outside the ISR may have been missed between epochs 0 and 1",
        ),
        ([*TAKEN, connection(60, "zookeeper-lost")], "its leader was not observed until the end"),
        ([], "was not observed"),
    ],
)
def test_unobserved_election_may_have_been_unclean(tmp_path: Path, cluster: Any, why: str) -> None:
    result = concluded(tmp_path / "lost", MINIMAL, losing(WELL, FIRST), cluster)
    assert result.verdict is INCONCLUSIVE
    assert result.cells[0].lost == 1
    assert any(why in reason for reason in result.cells[0].reasons)
    if cluster:
        assert concluded(tmp_path / "kept", MINIMAL, WELL, cluster).verdict is PASS


HOLE = (connection(9, "zookeeper-lost"), connection(12, "zookeeper-back"))


def versions(*numbers: int, controller_epoch: int | None = 1) -> list[dict[str, Any]]:
    """Return the same rows with versions: the election of 2 was unobserved, but nothing else was
    written in between."""
    states = [row for row in elected(1, *HOLE) if row["kind"] == "partition"]
    return [
        *HOLE,
        *(
            {**row, "version": version, "controller_epoch": controller_epoch}
            for row, version in zip(states, numbers, strict=True)
        ),
    ]


def test_unobserved_unclean_election_is_detected_by_znode_versions(tmp_path: Path) -> None:
    cluster = versions(5, 6, 7, 8)
    before = concluded(tmp_path / "before", MINIMAL, losing(WELL, FIRST), cluster)
    assert before.verdict is NOT_GUARANTEED
    assert "broker-2 was elected outside the ISR [1] in epoch 1" in before.cells[0].reasons[0]


@pytest.mark.parametrize(
    "cluster", [versions(5, 6, 8, 9), versions(5, 6, 7, 8, controller_epoch=None)]
)
def test_znode_versions_prove_nothing_about_intermediate_or_other_znodes(
    tmp_path: Path, cluster: Any
) -> None:
    """1 may have let 2 into the ISR before it was elected; or leader and ISR be in two znodes."""
    result = concluded(tmp_path, MINIMAL, losing(WELL, FIRST), cluster)
    assert result.verdict is INCONCLUSIVE
    assert "may have been missed between epochs 0 and 1" in result.cells[0].reasons[0]


def test_where_unclean_election_is_off_an_unclean_election_excuses_nothing(tmp_path: Path) -> None:
    settings = {**ALL, "min.insync.replicas": 1}
    assert concluded(tmp_path, settings, losing(WELL, FIRST), elected(1)).verdict is FAIL


PLAIN = {**ALL, "min.insync.replicas": 1}


def ordered(since: float = 10, until: float = 20, **changes: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"fault": "elect-unclean", "destroys": "unclean", "servers": ()}
    return a_fault(since, until, **given, **changes)


@pytest.mark.parametrize("offset", [FIRST, SECOND_])
def test_an_unclean_election_that_was_ordered_is_a_chosen_loss(tmp_path: Path, offset: int) -> None:
    result = concluded(tmp_path, PLAIN, losing(WELL, offset), elected(1), ordered())
    assert result.verdict is NOT_GUARANTEED
    assert "broker-2 was elected outside the ISR [1] in epoch 1" in result.cells[0].reasons[0]


def test_an_ordered_election_of_brokers_without_a_controller_is_seen_too(tmp_path: Path) -> None:
    """2 is put into the ISR before it leads."""
    cluster = [
        *ONE_LEFT,
        state(12, -1, 0, (1,)),
        state(14, -1, 0, (2,)),
        state(14.2, 2, 1, (2,)),
        state(22, 2, 1, (2, 1, 3)),
    ]
    result = concluded(tmp_path / "ordered", PLAIN, losing(WELL, FIRST), cluster, ordered())
    assert result.verdict is NOT_GUARANTEED
    assert "one of [2] was elected outside the ISR [1]" in result.cells[0].reasons[0]
    result = concluded(tmp_path / "killed", PLAIN, losing(WELL, FIRST), cluster)
    assert result.verdict is FAIL


def test_an_isr_that_grew_before_its_leader_was_gone_is_no_election(tmp_path: Path) -> None:
    cluster = [*ONE_LEFT, state(12, -1, 1, (1, 2)), state(14, 2, 2, (2,))]
    result = concluded(tmp_path, PLAIN, losing(WELL, FIRST), cluster, ordered())
    assert result.verdict is FAIL


def test_record_acked_after_an_ordered_election_is_guaranteed(tmp_path: Path) -> None:
    result = concluded(tmp_path, PLAIN, losing(WELL, LAST), elected(1), ordered())
    assert result.verdict is FAIL


@pytest.mark.parametrize(
    "faults",
    [
        ordered(16, 20),  # it was elected before
        ordered(1, 2),  # long after the order was over
        ordered(partitions=("t-1",)),
        [*ordered(16, 20), *a_fault(10, 15, fault_id=2)],
    ],
    ids=["later", "earlier", "elsewhere", "later, and a kill"],
)
def test_an_order_excuses_no_election_but_its_own(tmp_path: Path, faults: Any) -> None:
    result = concluded(tmp_path, PLAIN, losing(WELL, FIRST), elected(1), faults)
    assert result.verdict is FAIL


def test_ordered_election_within_the_isr_excuses_no_loss(
    tmp_path: Path,
) -> None:
    assert concluded(tmp_path, PLAIN, losing(WELL, FIRST), TAKEN, ordered()).verdict is FAIL


@pytest.mark.parametrize(
    "cluster",
    [
        elected(3),
        elected(1, connection(9, "zookeeper-lost"), connection(12, "zookeeper-back")),
    ],
)
def test_unobserved_ordered_election_is_inconclusive(tmp_path: Path, cluster: Any) -> None:
    result = concluded(tmp_path, PLAIN, losing(WELL, FIRST), cluster, ordered())
    assert result.verdict is INCONCLUSIVE


def test_an_order_that_never_went_out_excuses_nothing(tmp_path: Path) -> None:
    """Its target named no server, and 2 was elected all the same."""
    failed = [{**row, "event": "failed", "proven": None} for row in ordered()[:1]]
    result = concluded(tmp_path, PLAIN, losing(WELL, FIRST), elected(1), failed)
    assert result.verdict is FAIL


def test_other_partitions_keep_their_promise_when_an_election_is_ordered(tmp_path: Path) -> None:
    made = {("t", 0): losing(WELL, FIRST), ("t", 1): losing(WELL, FIRST)}
    run = MadeRun(
        partitions=made,
        cells=[cell(PLAIN, partitions=2)],
        cluster=[*elected(1), state(-5, 1, 0, (1, 2, 3), partition=1)],
        faults=ordered(),
    )
    result = checked(write_campaign(tmp_path, run))
    assert result.verdict is FAIL
    assert no_loss(result).broken == 1


# --- acks=1 -------------------------------------------------------------------------------------


def test_acks_1_is_promised_while_the_leader_never_changes(tmp_path: Path) -> None:
    assert concluded(tmp_path / "kept", ACKS_1, WELL, STAYS).verdict is PASS
    lost = concluded(tmp_path / "lost", ACKS_1, losing(WELL, FIRST), STAYS)
    assert lost.verdict is FAIL


def test_a_follower_that_left_the_isr_is_no_change_of_leader(tmp_path: Path) -> None:
    """The controller raises the epoch by one when it takes it out."""
    cluster = [*STAYS, state(13, 1, 1, (1, 3)), state(22, 1, 1, (1, 3, 2))]
    faults = a_fault(servers=("broker-2",))
    lost = concluded(tmp_path, ACKS_1, losing(WELL, FIRST), cluster, faults)
    assert lost.verdict is FAIL


@pytest.mark.parametrize(
    ("settings", "epoch", "verdict"),
    [
        (ACKS_1, 0, FAIL),
        (ACKS_1, 1, NOT_GUARANTEED),
        (MINIMAL, 0, FAIL),
        (MINIMAL, 1, INCONCLUSIVE),
    ],
)
def test_the_first_leader_of_a_new_topic_is_no_other_leader(
    tmp_path: Path, settings: Mapping[str, Any], epoch: int, verdict: Verdict
) -> None:
    """Were it one, nothing would be promised (acks=1), or the guarantees be unknown (elections
    outside the ISR), until the fault is long over, which began before that change had settled."""
    cluster = [state(-6, -1, -1, ()), state(-5, 1, epoch, (1, 2, 3))]
    faults = a_fault(1, 20, servers=("broker-2",))
    lost = losing(kept(0, BEFORE, DURING, AFTER, 100), FIRST)
    assert concluded(tmp_path, settings, lost, cluster, faults).verdict is verdict


@pytest.mark.parametrize("offset", [None, FIRST, SECOND_])
def test_acks_1_is_not_promised_before_a_change_of_leader(
    tmp_path: Path, offset: int | None
) -> None:
    made = WELL if offset is None else losing(WELL, offset)
    result = concluded(tmp_path, ACKS_1, made, TAKEN)
    assert result.verdict is NOT_GUARANTEED
    assert "its leader changed from broker-1 to broker-2 (acks=1)" in result.cells[0].reasons[0]


@pytest.mark.parametrize(
    ("leaders", "words"),
    [
        ((-1, 2), "it had no leader, then broker-2 led (acks=1)"),
        ((1, -1), "broker-1 led, then it had no leader (acks=1)"),
        ((-1, -1), "it had no known leader (acks=1)"),
        ((1, 1), "broker-1 led again, and other brokers may have led in between (acks=1)"),
    ],
)
def test_reason_names_the_leaders_and_not_their_numbers(
    tmp_path: Path, leaders: tuple[int, ...], words: str
) -> None:
    cluster = [
        state(-5 if number == 0 else 11 + number, leader, 2 * number, (1, 2, 3))
        for number, leader in enumerate(leaders)
    ]
    result = concluded(tmp_path, ACKS_1, WELL, cluster)
    assert any(words in reason for reason in result.cells[0].reasons), result.cells[0].reasons


def test_acks_1_is_promised_after_the_last_change_of_leader(tmp_path: Path) -> None:
    assert concluded(tmp_path, ACKS_1, losing(WELL, LAST), TAKEN).verdict is FAIL


def test_a_zombies_acks_are_not_promised_though_they_come_after_the_change(tmp_path: Path) -> None:
    """Isolated from 10 to 60, deposed at 13; what it acked at 58 is lost when it hears at last."""
    faults = a_fault(10, 60, fault="isolate")
    made = losing(kept(BEFORE, DURING, 58, 62, 100), 2, 3)
    assert concluded(tmp_path, ACKS_1, made, TAKEN, faults).verdict is NOT_GUARANTEED


@pytest.mark.parametrize("epoch", [2, 7])
def test_epochs_that_were_not_seen_are_changes_of_leader(tmp_path: Path, epoch: int) -> None:
    cluster = [*STAYS, state(13, 1, epoch, (1, 2, 3))]
    lost = concluded(tmp_path, ACKS_1, losing(WELL, FIRST), cluster)
    assert lost.verdict is NOT_GUARANTEED


def test_a_killed_leader_keeps_its_page_cache_and_a_struck_one_does_not(tmp_path: Path) -> None:
    lost = losing(WELL, FIRST)
    assert concluded(tmp_path / "kill", ACKS_1, lost, STAYS, KILL).verdict is FAIL
    struck = concluded(tmp_path / "power", ACKS_1, lost, STAYS, strike())
    assert struck.verdict is NOT_GUARANTEED
    assert "power-loss#1 took data from its leader's disk" in struck.cells[0].reasons[0]
    follower = strike(servers=("broker-2",))
    assert concluded(tmp_path / "other", ACKS_1, lost, STAYS, follower).verdict is FAIL


@pytest.mark.parametrize("cluster", [[], [*STAYS, connection(8, "zookeeper-lost")]])
def test_unwatched_leader_may_have_changed(tmp_path: Path, cluster: Any) -> None:
    lost = concluded(tmp_path, ACKS_1, losing(WELL, FIRST), cluster)
    assert lost.verdict is INCONCLUSIVE


def test_a_hole_through_which_nothing_changed_is_none(tmp_path: Path) -> None:
    cluster = [*STAYS, connection(8, "zookeeper-lost"), connection(9, "zookeeper-back")]
    assert concluded(tmp_path / "kept", ACKS_1, WELL, cluster).verdict is PASS
    lost = concluded(tmp_path / "lost", ACKS_1, losing(WELL, FIRST), cluster)
    assert lost.verdict is FAIL


def test_unknown_clock_leaves_a_loss_near_a_boundary_inconclusive(tmp_path: Path) -> None:
    """The client's clock may be an hour off: then it is unknown which records were acked after the
    change."""
    directory = write_campaign(
        tmp_path,
        MadeRun(partitions={("t", 0): losing(WELL, LAST)}, cells=[cell(ACKS_1)], cluster=TAKEN),
    )
    for path in directory.glob("runs/1/history/clocks.*"):
        path.unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_the_boundary_moves_with_the_clock_bound(tmp_path: Path) -> None:
    """The kill ends at 20 s; seven later a deposed leader has heard of it."""
    made = losing(kept(BEFORE, DURING, 30, 100), 2)
    assert concluded(tmp_path / "near", ACKS_1, made, TAKEN).verdict is FAIL
    far = concluded(tmp_path / "far", ACKS_1, made, TAKEN, bounds=(4_000_000_000, 0))
    assert far.verdict is NOT_GUARANTEED


# --- what came after the final read -------------------------------------------------------------

READ_FROM_TO = {"workload": (0, 1), "final-read": (120, 130), "collect": (140, 150)}


def read_from_to(steps: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """The steps of a run, with the times of some."""
    return [
        {**row, "time": at(steps[row["phase"]][row["event"] == "end"])}
        if row["phase"] in steps
        else row
        for row in FINISHED
    ]


AFTERWARDS = {
    "acks=1": (ACKS_1, [*STAYS, state(135, 2, 1, (2, 3))], KILL),
    "unclean": (MINIMAL, [*ONE_LEFT, state(135, 2, 1, (2,))], KILL),
    "power": (ALL, STAYS, strike(133, 134, servers=("broker-1", "broker-2", "broker-3"))),
    "unwatched": (ACKS_1, [*STAYS, connection(135, "zookeeper-lost")], KILL),
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_change_after_the_final_read_excuses_no_loss(tmp_path: Path, name: str) -> None:
    settings, cluster, faults = AFTERWARDS[name]
    made = losing(WELL, FIRST)
    phases = read_from_to(READ_FROM_TO)
    read = concluded(tmp_path / "read", settings, made, cluster, faults, phases=phases)
    assert read.verdict is FAIL
    # It had not ended then, or the steps do not tell when it did.
    reading = read_from_to({**READ_FROM_TO, "final-read": (120, 139)})
    untimed = read_from_to({"workload": (0, 1), "final-read": (0, 0)})
    for steps in (reading, untimed):
        directory = tmp_path / f"{len(steps)}-{steps is reading}"
        result = concluded(directory, settings, made, cluster, faults, phases=steps)
        assert result.verdict in (NOT_GUARANTEED, INCONCLUSIVE)


# --- what keeps a deposed leader from hearing of its successor ----------------------------------

STALE = kept(BEFORE, DURING, 25, 45, 100)
"""The kill of broker 1, the leader, is over at 20 s, and 2 leads from 13 s on. Acked at 45 s, a
record is 25 s beyond what a deposed leader takes to hear of it."""


def beside(fault: str, **changes: Any) -> list[dict[str, Any]]:
    """The kill, and from 15 s to 60 s another fault."""
    return [*KILL, *a_fault(15, 60, fault_id=2, fault=fault, **changes)]


KEEPS_NOBODY = {
    "a follower's disk is slow": beside("slow-disk", servers=("broker-3",)),
    "a follower is paused": beside("pause", servers=("broker-3",)),
    "a follower is cut off": beside("isolate", servers=("broker-2", "broker-3")),
    "a follower's link to zookeeper": beside(
        "cut", target="follower(t, 0) -> zookeeper", servers=("broker-3", "zookeeper-1")
    ),
    "a client is paused": beside("pause-client", servers=("client-1",), partitions=()),
    "a client is cut off": beside("isolate", servers=("client-1",), partitions=()),
    "partitions move": beside("reassign", servers=()),
    "preferred leaders are elected": beside("elect-preferred", servers=()),
    "a topic is made": beside("create-topic", servers=()),
    "a clock is wrong": beside("step-clock", servers=("broker-1", "broker-2", "broker-3")),
    "the next controller is told": beside("pause", servers=("broker-3",)),
}
OFFICES = {"the next controller is told": [office(-5, 3), office(19, 2)]}


@pytest.mark.parametrize("name", KEEPS_NOBODY)
@pytest.mark.parametrize("settings", [ACKS_1, MINIMAL], ids=["acks=1", "unclean"])
def test_fault_that_cannot_keep_the_deposed_leader_from_hearing_excuses_no_loss(
    tmp_path: Path, settings: Any, name: str
) -> None:
    cluster = [*(TAKEN if settings is ACKS_1 else elected(1)), *OFFICES.get(name, [])]
    late = concluded(tmp_path / "45", settings, losing(STALE, 3), cluster, KEEPS_NOBODY[name])
    assert late.verdict is FAIL
    soon = concluded(tmp_path / "15", settings, losing(STALE, 1), cluster, KEEPS_NOBODY[name])
    assert soon.verdict is NOT_GUARANTEED


KEEPS_IT = {
    "it is paused": beside("pause", servers=("broker-1",)),
    "it is cut off": beside("isolate", servers=("broker-1", "broker-3")),
    "a fault of the user's own": beside("gremlin", servers=("broker-1",)),
    "its link to zookeeper": beside(
        "cut", target="broker-1 -> zookeeper", servers=("broker-1", "zookeeper-1")
    ),
    "zookeeper is paused": beside("pause", servers=("zookeeper-1",)),
    "the controller is paused": beside("pause", servers=("broker-3",)),
}


@pytest.mark.parametrize("name", KEEPS_IT)
@pytest.mark.parametrize("settings", [ACKS_1, MINIMAL], ids=["acks=1", "unclean"])
def test_fault_that_may_keep_the_deposed_leader_from_hearing_excuses_until_it_is_over(
    tmp_path: Path, settings: Any, name: str
) -> None:
    cluster = [*(TAKEN if settings is ACKS_1 else elected(1)), office(-5, 3)]
    on = concluded(tmp_path / "45", settings, losing(STALE, 3), cluster, KEEPS_IT[name])
    assert on.verdict is NOT_GUARANTEED
    over = concluded(tmp_path / "100", settings, losing(STALE, 4), cluster, KEEPS_IT[name])
    assert over.verdict is FAIL


@pytest.mark.parametrize(
    ("moment", "verdict"), [(45, FAIL), (60.5, INCONCLUSIVE), (66, INCONCLUSIVE), (70, FAIL)]
)
def test_paused_client_may_record_old_acks_when_it_goes_on(
    tmp_path: Path, moment: float, verdict: Verdict
) -> None:
    """It was given them before it was paused at 15 s, by the deposed leader."""
    made = losing(kept(BEFORE, DURING, moment, 100), 2)
    faults = KEEPS_NOBODY["a client is paused"]
    result = concluded(tmp_path, ACKS_1, made, TAKEN, faults)
    assert result.verdict is verdict


@pytest.mark.parametrize(("moment", "verdict"), [(30, INCONCLUSIVE), (45, FAIL)])
def test_client_that_is_cut_off_records_acks_until_it_gives_up(
    tmp_path: Path, moment: float, verdict: Verdict
) -> None:
    made = losing(kept(BEFORE, DURING, moment, 100), 2)
    result = concluded(tmp_path, ACKS_1, made, TAKEN, KEEPS_NOBODY["a client is cut off"])
    assert result.verdict is verdict


def test_faults_that_leave_servers_alone_are_those_of_the_catalogue() -> None:
    assert {name for name, one in FAULTS.items() if not one.aim.affects_servers} == ORDERS
    assert {one.name for one in CLOCK_FAULTS} == CLOCKS
    assert FAULTS.keys() >= {PAUSE_CLIENT, *DISKS_THAT_SERVE}


def test_acks_0_is_promised_nothing(tmp_path: Path) -> None:
    for name, made in (("lost", losing(WELL, FIRST)), ("kept", WELL)):
        assert concluded(tmp_path / name, ACKS_0, made, STAYS).verdict is NOT_GUARANTEED


def test_loss_without_evidence_is_inconclusive_even_if_not_guaranteed(tmp_path: Path) -> None:
    torn = losing(WELL, FIRST).but(complete=False)
    assert concluded(tmp_path, ACKS_0, torn, STAYS).verdict is INCONCLUSIVE


# --- duplicates, order, offsets: with the same condition ----------------------------------------


def doubled(made: Made, offset: int) -> Made:
    twin = made.log[offset]
    copy = entry(made.end, twin.producer, twin.sequence)
    return made.but(log=[*made.log, copy], end=made.end + 1)


def swapped(made: Made) -> Made:
    """The last two records stand in the other order; no client received offsets."""
    *first, a, b = made.log
    log = [*first, entry(a.offset, b.producer, b.sequence), entry(b.offset, a.producer, a.sequence)]
    return made.but(log=log, sends=[send(*_untold(event)) for event in made.sends])


def _untold(event: Any) -> tuple[Any, ...]:
    return event.type, event.producer, event.sequence, event.time


IN_ORDER = {**ALL, "enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
ANYHOW = {**ALL, "enable.idempotence": False}


@pytest.mark.parametrize(
    ("settings", "duplicate", "order"),
    [
        (ALL, FAIL, FAIL),
        (IN_ORDER, PASS, FAIL),
        (ANYHOW, PASS, PASS),
        ({**ACKS_1, "max.in.flight.requests.per.connection": 1}, PASS, FAIL),
        (ACKS_1, PASS, PASS),
    ],
)
def test_producer_guarantees_depend_on_settings(
    tmp_path: Path, settings: Any, duplicate: Verdict, order: Verdict
) -> None:
    again = concluded(tmp_path / "duplicate", settings, doubled(WELL, FIRST), STAYS)
    assert (again.verdict, again.cells[0].duplicated) == (duplicate, 1)
    turned = concluded(tmp_path / "order", settings, swapped(WELL), STAYS)
    assert (turned.verdict, turned.cells[0].reordered) == (order, 1)


def test_order_with_one_in_flight_is_promised_of_acked_records_alone(tmp_path: Path) -> None:
    turned = swapped(WELL)
    sends = [event for event in turned.sends if (event.type, event.sequence) != ("ok", 2)]
    made = turned.but(sends=sends)
    result = concluded(tmp_path, IN_ORDER, made, STAYS)
    assert (result.verdict, result.cells[0].reordered) == (PASS, 1)


def test_possible_log_loss_voids_producer_guarantees(tmp_path: Path) -> None:
    made = kept(BEFORE, 8, AFTER, 100)
    for name, changed in (("duplicate", doubled(made, 0)), ("order", swapped(made))):
        result = concluded(tmp_path / name, ALL, changed, ALONE, strike())
        assert result.verdict is NOT_GUARANTEED
        guarantees = {g.name: g.promised for g in result.cells[0].guarantees}
        assert not guarantees["no-duplicates"]
        assert not guarantees["no-reordering"]


def test_an_offset_is_kept_where_the_record_is(tmp_path: Path) -> None:
    sends = [
        event if event.offset != 3 else send("ok", 1, 3, event.time, 17) for event in WELL.sends
    ]
    moved = WELL.but(sends=sends)
    assert concluded(tmp_path / "all", ALL, moved, TAKEN).verdict is FAIL
    assert concluded(tmp_path / "one", ACKS_1, moved, TAKEN).verdict is FAIL
    early = [
        event if event.offset != 0 else send("ok", 1, 0, event.time, 17) for event in WELL.sends
    ]
    moved = WELL.but(sends=early)
    assert concluded(tmp_path / "early", ACKS_1, moved, TAKEN).verdict is NOT_GUARANTEED


@pytest.mark.parametrize("settings", [ALL, ACKS_1, ACKS_0])
def test_some_guarantees_are_valid_in_each_configuration(tmp_path: Path, settings: Any) -> None:
    alien = WELL.but(log=[*WELL.log, entry(4)], end=5)
    failed = WELL.but(
        sends=[*WELL.sends, send("invoke", 1, 9, T0), send("fail", 1, 9, T0 + 1)],
        log=[*WELL.log, entry(4, 1, 9)],
        end=5,
    )
    torn = WELL.but(end=6)
    for name, made in (("phantom", alien), ("failed", failed), ("gap", torn)):
        assert concluded(tmp_path / name, settings, made, TAKEN).verdict is FAIL
