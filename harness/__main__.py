"""The entry point of ``python -m ackproof.harness``, which is ``ackproof``."""

import signal
import sys

_INCONCLUSIVE, _INFRASTRUCTURE = 3, 5


def main() -> None:
    """Run the command line.

    A failed import must not look like a broken guarantee, as Python's own status 1 would. If the
    user asks to stop during the imports, the program says so in one line.
    """
    try:
        from ackproof.harness.interruption import SIGNALS

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # harness.campaign.backends.go_inside starts this program with the signals blocked.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        from ackproof.harness.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("ackproof: interrupted\n")
        sys.exit(_INCONCLUSIVE)
    except Exception:  # noqa: BLE001 - any import may fail
        import traceback  # Python starts sooner without it

        traceback.print_exc()
        sys.exit(_INFRASTRUCTURE)


if __name__ == "__main__":
    main()
