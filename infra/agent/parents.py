"""Programs that do not outlive the process that starts them, kill -9 included."""

from collections.abc import Sequence

_IF_IT_IS_STILL_THERE = ("sh", "-c", 'test "$PPID" = "$0" && exec "$@"')


def dying_with(parent: int, by: str = "KILL") -> Sequence[str]:
    """Return a prefix of a command line that binds the program to the process ``parent``.

    The program gets the signal ``by`` when the parent, which starts it, ends. It is not run if the
    parent has already ended. It loses variables of its environment that have no name in a shell
    (``A.B``).
    """
    # A parent that is killed right after the start has ended before setpriv asks the kernel for the
    # signal. The signal would never come, and the program would run on. The parent is therefore
    # checked after setpriv has asked.
    return ["setpriv", "--pdeathsig", by, "--", *_IF_IT_IS_STILL_THERE, str(parent)]
