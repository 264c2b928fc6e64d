"""Guarantees and verdicts: the facts of a cell, the finding for each guarantee (``table``), and the
verdict that follows. ``decisions`` is the only module that decides it."""
