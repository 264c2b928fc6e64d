"""How long tests of whole programs wait for what must come.

Not a measure of speed: on a machine with twenty others at work, everything takes ten times as
long. Who waits in vain is told so, later.
"""

PATIENCE_S = 600
"""For one thing."""

TEST_S = 3 * PATIENCE_S
"""For a whole test."""
