"""A campaign with several seeds: ``python -m harness.nightly campaigns/quick.yaml --seeds 3``.

Every night has seeds of its own, derived from the date, so that a night can be repeated. A failure
does not stop the rest; the exit status is the worst of all, and a broken guarantee is the worst.

Asked to stop (Ctrl-C, SIGTERM), the campaign that is under way is asked, and waited for: it heals,
checks and cleans up. No other one is started.
"""

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import click
from rich import box
from rich.table import Table

from harness.console import console, go_on_unread
from harness.exit_status import ExitStatus, worst
from harness.running.interruption import SIGNALS

_SEED_BITS = 32


def seeds_of(day: str, count: int) -> tuple[int, ...]:
    """The seeds of a day, e.g. ``2031-05-17``."""
    rng = random.Random(f"nightly/{day}")
    return tuple(rng.getrandbits(_SEED_BITS) for _ in range(count))


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.option("--seeds", "count", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--seed", "given", type=click.IntRange(min=0), multiple=True, help="Exactly these.")
@click.option("--day", help="The day whose seeds to take, e.g. 2031-05-17. Today (UTC) if absent.")
@click.pass_context
def main(
    context: click.Context, campaign: Path, count: int, given: tuple[int, ...], day: str | None
) -> None:
    """Run CAMPAIGN once a seed; one table at the end."""
    seeds = given or seeds_of(day or datetime.now(UTC).date().isoformat(), count)
    click.echo(f"seeds: {', '.join(map(str, seeds))}")
    night = Night()
    for seed in seeds:
        if night.asked_to_stop:
            break
        night.run(campaign, seed)
    _print(seeds, night.statuses)
    skipped = len(night.statuses) < len(seeds)
    context.exit(worst([*night.statuses, *([ExitStatus.INCONCLUSIVE] if skipped else [])]))


class Night:
    """The campaigns, one after the other, and the signals that are meant for them."""

    def __init__(self) -> None:
        self.statuses: list[ExitStatus] = []
        self._signals: list[int] = []
        self._handed_down = 0
        self._campaign: subprocess.Popen[bytes] | None = None
        for number in (*SIGNALS, signal.SIGHUP):
            if number in SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    @property
    def asked_to_stop(self) -> bool:
        return bool(self._signals)

    def run(self, campaign: Path, seed: int) -> None:
        """Run ``campaign`` to its end."""
        # Nobody is there to be asked: what is run by night, however large, is meant.
        options = ["--seed", str(seed), "--yes"]
        command = [sys.executable, "-m", "harness", "run", str(campaign), *options]
        # In a process group of its own: Ctrl-C reaches it once, from here, and not once from the
        # terminal and once from here. The second time would be taken for impatience.
        self._campaign = subprocess.Popen(command, process_group=0)
        self._hand_down()  # what came before it was there
        status = self._campaign.wait()
        self._campaign = None
        known = status in set(ExitStatus)
        self.statuses.append(ExitStatus(status) if known else ExitStatus.INCONCLUSIVE)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        self._hand_down()

    def _hand_down(self) -> None:
        while self._campaign is not None and self._handed_down < len(self._signals):
            self._handed_down += 1
            self._campaign.send_signal(self._signals[self._handed_down - 1])


def _print(seeds: Sequence[int], statuses: Sequence[ExitStatus]) -> None:
    table = Table("seed", "exit status", "meaning", box=box.SIMPLE_HEAD, pad_edge=False)
    for seed, status in zip(seeds, statuses, strict=False):
        table.add_row(str(seed), str(status.value), status.name.lower())
    for seed in seeds[len(statuses) :]:
        table.add_row(str(seed), "", "not started")
    console().print(table)


if __name__ == "__main__":
    go_on_unread()
    main()
