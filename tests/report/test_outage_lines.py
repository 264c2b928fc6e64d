"""Each outage stands once in the report, with its faults and what it ended after."""

from dataclasses import replace

from ackproof.checkers.verdict import CellResult, OutagePeriod, Unavailable, Verdict
from ackproof.harness.report.fault_costs import OUTAGES_MAX, OutageLine, outage_lines
from ackproof.harness.report.rows import rows
from ackproof.harness.report.timeline import FaultSpan, LeaderChange
from tests.support.builders.results import cell_result, of_cells

S = 1_000_000_000
KILL = FaultSpan(
    fault_id=1,
    fault="kill",
    target="one",
    servers=("broker-1",),
    start=10 * S,
    end=19 * S,
    injected=True,
    proven=True,
    evidence={},
    healing={},
)
CUT = replace(KILL, fault_id=2, fault="cut", start=13 * S, end=30 * S)


def period(start: float, end: float, partition: str = "t-0", **changes: object) -> OutagePeriod:
    made = OutagePeriod(
        partition=partition,
        start=int(start * S),
        end=int(end * S),
        length_ms=int(1000 * (end - start)),
        acked=True,
        fault="kill#1",
    )
    return replace(made, **changes)


def cell(name: str, *periods: OutagePeriod) -> CellResult:
    settings = {"acks": "all", "min.insync.replicas": 2 if name == "a" else 1}
    away = Unavailable(longest_ms=1, total_ms=1, periods=periods)
    return cell_result(name, settings=settings, unavailable=away)


def found(*cells: CellResult, changes: tuple[LeaderChange, ...] = ()) -> list[OutageLine]:
    lines = outage_lines(rows(of_cells(Verdict.PASS, *cells)), (KILL, CUT), changes)
    assert lines.folded == []
    return list(lines.shown)


def led(partition: int, at: float, leader: int = 2) -> LeaderChange:
    return LeaderChange(
        time=int(at * S), topic="t", partition=partition, leader=leader, leader_epoch=5
    )


def test_outage_of_a_fault_in_several_partitions_is_one_line() -> None:
    first = cell("a", period(10.2, 14), period(10.1, 15, "t-1"))
    second = cell("b", period(11, 16, "u-0"), period(11, 12, "u-1"))
    (line,) = found(first, second, changes=(led(0, 13.9), led(1, 14.9, 3)))
    assert (line.start, line.end, line.longest_ms) == (int(10.1 * S), 16 * S, 5000)
    assert line.where == "4 partitions of 2 cells"
    assert (line.faults, line.later) == (("kill#1",), ("cut#2",))
    assert line.ended == "other leaders (2), no observed event: acks resumed (2)"


def test_single_outage_names_its_partition_cell_and_next_leader() -> None:
    (line,) = found(cell("a", period(10.2, 12)), changes=(led(0, 5), led(0, 11.5), led(1, 12)))
    assert line.where == "t-0 (acks=all, min ISR 2)"
    assert line.ended == "broker-2 led, in epoch 5"


def test_outage_without_a_new_leader_ends_after_a_heal_or_never() -> None:
    healed, never = found(
        cell("a", period(18, 19.5)),
        cell("b", period(31, 40, "u-0", acked=False, fault=None)),
        changes=(led(0, 19, -1),),
    )
    assert healed.ended == "the heal of kill#1"
    assert never.ended == "nothing: no record was acknowledged after it"
    assert never.faults == ()


def test_outages_apart_or_under_other_faults_are_lines_of_their_own() -> None:
    lines = found(cell("a", period(10, 12), period(11, 13, fault="cut#2,kill#1"), period(14, 15)))
    assert [line.faults for line in lines] == [("kill#1",), ("cut#2", "kill#1"), ("kill#1",)]


def test_fault_that_was_healed_before_is_not_active() -> None:
    (line,) = found(cell("a", period(20, 22, fault="cut#2,kill#1")))
    assert (line.faults, line.healed) == (("cut#2",), ("kill#1",))


def test_short_outages_of_many_are_folded_in_the_order_of_time() -> None:
    many = [period(10 * n, 10 * n + 1 + n / 10) for n in range(1, OUTAGES_MAX + 3)]
    lines = outage_lines(rows(of_cells(Verdict.PASS, cell("a", *many))), (), ())
    assert [line.start // S for line in lines.folded] == [10, 20]
    assert [line.start // S for line in lines.shown] == [10 * n for n in range(3, OUTAGES_MAX + 3)]
