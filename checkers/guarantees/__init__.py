"""From evidence and totals to verdicts: the facts of a cell, what became of each guarantee
(``table``), and which verdict follows. ``decisions`` decides it; nothing else does."""
