"""From evidence and totals to verdicts: the facts of a cell, what became of each promise, and which
verdict follows. ``guarantees`` decides it; nobody else does."""
