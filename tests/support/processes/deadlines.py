"""Deadlines of tests of whole programs.

They measure no speed: on a machine with twenty other tests, everything takes ten times as long. A
wait without success fails later.
"""

PATIENCE_S = 600
"""For one thing."""

TEST_S = 3 * PATIENCE_S
"""For a whole test."""
