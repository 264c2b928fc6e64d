"""A selftest from its first broker to its last, and what it came to."""

from collections.abc import Callable, Sequence

from ackproof.harness.children import Interrupted
from ackproof.harness.exit_status import ExitStatus, worst
from ackproof.harness.selftest import table
from ackproof.harness.selftest.attempt import Outcome
from ackproof.harness.selftest.catalogue import Bug
from ackproof.harness.selftest.display import Display
from ackproof.harness.selftest.looking import Looking
from ackproof.harness.selftest.patches import StalePatch
from ackproof.harness.selftest.rounds import Round, Rounds
from ackproof.harness.selftest.sources import broken

Tell = Callable[[str], object]


def carry_out(
    bugs: Sequence[Bug], looking: Sequence[Looking], rounds: Rounds, display: Display, tell: Tell
) -> ExitStatus:
    """The sound broker first; the bugs, if there is nothing the matter with it: those that the
    simulator finds soonest first, so that most is known should somebody interrupt it. ``tell`` is
    told why the status is not 0. Raises OSError."""
    controls = [Round(None, one) for one in looking]
    others = [Round(bug, one) for one in looking for bug in bugs]
    try:
        for bug in bugs:
            broken(bug, rounds.sound)  # one that does not fit is told now, and not in an hour
        display.expect(sum(rounds.known(one) is None for one in (*controls, *others)))
        rounds.carry_out(controls)
        status = _of_the_sound(controls, rounds, tell)
        if status is not ExitStatus.HELD:
            return status
        for one in looking:
            rounds.carry_out([Round(bug, one) for bug in sorted(bugs, key=rounds.found_after)])
    except StalePatch as stale:
        tell(f"a bug does not fit the sources any more: {stale}")
        return ExitStatus.INCONCLUSIVE
    except Interrupted:
        tell("interrupted; the same command goes on with the rest")
        return ExitStatus.INCONCLUSIVE
    missed = table.missed(bugs, rounds)
    if missed:
        tell(f"found by nobody: {', '.join(bug.name for bug in missed)}")
    return ExitStatus.INCONCLUSIVE if missed else ExitStatus.HELD


def _of_the_sound(controls: Sequence[Round], rounds: Rounds, tell: Tell) -> ExitStatus:
    """Whether whatever is found can be worth anything."""
    statuses = [ExitStatus.HELD]
    for one in controls:
        attempt = rounds.known(one)
        assert attempt is not None
        finding, way = attempt.finding, attempt.way.value
        if finding.outcome is Outcome.FOUND:
            where = f"{finding.by}, {finding.where}"
            tell(f"the {way} finds a fault in the sound broker ({where}): {finding.why}")
            statuses.append(ExitStatus.BROKEN)
        elif finding.outcome is Outcome.INCONCLUSIVE:
            tell(f"the {way} says nothing certain of the sound broker: {finding.why}")
            statuses.append(ExitStatus.INCONCLUSIVE)
    status = worst(statuses)
    if status is not ExitStatus.HELD:
        tell("so no find in a broken one would be worth anything; none was looked for")
    return status
