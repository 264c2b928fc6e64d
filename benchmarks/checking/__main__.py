"""The cost of a check and its growth: ``python -m benchmarks.checking``.

The benchmark writes histories with planted losses and copies. ``ackproof check`` and DuckDB count
them one right after the other. It prints processor time and memory as Markdown. Both programs must
find exactly the planted anomalies. All repetitions are written to a JSON file.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.checking import made, measured
from benchmarks.checking.made import Planted, Shape
from benchmarks.checking.measured import Cost

MILLION = 1_000_000

CASES: Mapping[str, Shape] = {
    "100,000 over 18 partitions": Shape(sends=MILLION // 10),
    "1 M over 18 partitions": Shape(sends=MILLION),
    "10 M over 18 partitions": Shape(sends=10 * MILLION),
    "30 M over 18 partitions": Shape(sends=30 * MILLION),
    "10 M over 1,800 partitions": Shape(sends=10 * MILLION, partitions=300),
    "10 M in one partition": Shape(sends=10 * MILLION, cells=1, partitions=1),
    "3 M over 18 partitions, 30 % lost": Shape(sends=3 * MILLION, lost=300),
    "3 M in one partition, 30 % lost": Shape(sends=3 * MILLION, cells=1, partitions=1, lost=300),
}
ON_REQUEST: Mapping[str, Shape] = {
    "100 M over 18 partitions": Shape(sends=100 * MILLION),
    "100 M over 60 partitions": Shape(sends=100 * MILLION, partitions=10),
}
"""Cases that only run with ``--case``. Each takes minutes and 10 GB of disk."""

GROWTH = (
    "1 M over 18 partitions",
    "10 M over 18 partitions",
    "30 M over 18 partitions",
    "100 M over 18 partitions",
)
"""Cases whose difference to the next one is the cost of a million more sends."""

SPREAD = ("10 M over 18 partitions", "10 M over 1,800 partitions")
"""Cases whose difference is the cost of many small partitions."""

SHAPES = {**CASES, **ON_REQUEST}

CHECK = (sys.executable, "-P", "-m", "ackproof.harness", "check")
DUCKDB = (sys.executable, "-m", "benchmarks.checking.duck")


class Wrong(Exception):
    """The counts differ from the planted anomalies."""


def main() -> None:
    """Make the histories, count, and print."""
    arguments = _arguments()
    chosen = {name: SHAPES[name] for name in arguments.case or CASES}
    costs: dict[str, dict[str, list[Cost]]] = {}
    for name, shape in chosen.items():
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
            planted = made.make(Path(scratch), shape)
            pairs = [_pair(Path(scratch), planted) for _ in range(arguments.repetitions)]
        costs[name] = {who: [pair[who] for pair in pairs] for who in ("check", "duckdb")}
        sys.stderr.write(f"{name}: {_line(name, costs[name])}\n")
    sys.stdout.write("\n".join(_report(costs)) + "\n")
    told = {
        case: {who: [asdict(one) for one in some] for who, some in by.items()}
        for case, by in costs.items()
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--case", action="append", choices=list(SHAPES))
    parser.add_argument("--scratch", type=Path, help="where the histories go, and are removed")
    parser.add_argument("--json", type=Path, default=Path("results/checking.json"))
    return parser.parse_args()


def _pair(directory: Path, planted: Planted) -> dict[str, Cost]:
    history = directory / "runs" / "1" / "history"
    output = directory / "output"
    duckdb = measured.run([*DUCKDB, str(history)], output)
    counted = json.loads(output.read_text(encoding="utf-8"))
    _compare("DuckDB", counted, planted)
    check = measured.run([*CHECK, str(directory)], output)
    verdict = json.loads((directory / "verdict.json").read_text(encoding="utf-8"))
    names = ("sent", "lost", "duplicated")
    summed = {name: sum(cell[name] for cell in verdict["cells"]) for name in names}
    _compare("ackproof", summed, planted)
    return {"check": check, "duckdb": duckdb}


def _compare(who: str, counted: Mapping[str, int], planted: Planted) -> None:
    wrong = {
        name: counted[name] for name, count in asdict(planted).items() if counted[name] != count
    }
    if wrong:
        raise Wrong(f"{who} counts {wrong}, planted are {planted}")


def _report(costs: Mapping[str, Mapping[str, Sequence[Cost]]]) -> Iterator[str]:
    yield "| history | check, CPU | DuckDB, CPU | ratio | check, MiB | largest worker, MiB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, by in costs.items():
        yield f"| {name} | {_line(name, by)} |"
    for few, more in pairwise(name for name in GROWTH if name in costs):
        check, duckdb = (_slope(costs, few, more, who) for who in ("check", "duckdb"))
        yield ""
        yield (
            f"From {few} to {more.split(' over')[0]}, a million sends more: {check:.2f} s, "
            f"DuckDB {duckdb:.2f} s: {check / duckdb:.2f}."
        )
    if set(SPREAD) <= costs.keys():
        few, many = (median(one.cpu_s for one in costs[name]["check"]) for name in SPREAD)
        yield ""
        yield f"A hundred times as many partitions: {many / few:.2f} times the time."


def _line(_: str, by: Mapping[str, Sequence[Cost]]) -> str:
    check, duckdb = by["check"], by["duckdb"]
    ratio = median(a.cpu_s / b.cpu_s for a, b in zip(check, duckdb, strict=True))
    peak, worker = max(one.peak_mb for one in check), max(one.worker_mb for one in check)
    seconds = [median(one.cpu_s for one in some) for some in (check, duckdb)]
    return f"{seconds[0]:.1f} s | {seconds[1]:.1f} s | {ratio:.2f} | {peak:,} | {worker:,}"


def _slope(
    costs: Mapping[str, Mapping[str, Sequence[Cost]]], few: str, more: str, who: str
) -> float:
    small, large = (median(one.cpu_s for one in costs[name][who]) for name in (few, more))
    return (large - small) / ((SHAPES[more].sends - SHAPES[few].sends) / MILLION)


if __name__ == "__main__":
    main()
