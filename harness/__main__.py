"""``python -m harness`` is ``ackproof``."""

from harness.cli import main

main()
