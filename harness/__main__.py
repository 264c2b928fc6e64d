"""``python -m harness`` is ``ackproof``."""

import sys
import traceback

_INCONCLUSIVE = 3


def main() -> None:
    """The command line. That it cannot even be loaded must not look like a broken guarantee, which
    Python's own status 1 of an exception would."""
    try:
        from harness.cli import main as command_line
    except Exception:  # noqa: BLE001 - whatever is missing or broken
        traceback.print_exc()
        sys.exit(_INCONCLUSIVE)
    command_line()


if __name__ == "__main__":
    main()
