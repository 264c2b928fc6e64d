"""Programs that do not outlive the process that starts them, kill -9 included."""

from collections.abc import Sequence

_IF_IT_IS_STILL_THERE = ("sh", "-c", 'test "$PPID" = "$0" && exec "$@"')


def dying_with(parent: int, by: str = "KILL") -> Sequence[str]:
    """In front of a program and its arguments: it gets a signal, ``by`` its name, when the process
    ``parent``, which starts it, ends; and is not run when that has ended already. Of its
    environment it loses what a shell knows no name for (``A.B``)."""
    # A parent that is killed right after it has started us has ended before setpriv asks the kernel
    # to be told of its end. Nobody would tell us, and we would run on for good: so we look, after
    # we have asked.
    return ["setpriv", "--pdeathsig", by, "--", *_IF_IT_IS_STILL_THERE, str(parent)]
