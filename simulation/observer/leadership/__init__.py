"""Who leads, whoever decides it: what must hold when that is decided, written and told."""
