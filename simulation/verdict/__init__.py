"""The end of a run: everything is healed, and what was promised must be there."""
