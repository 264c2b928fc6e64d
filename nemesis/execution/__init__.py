"""How faults are carried out: what is open is written down, effects are applied, and undone."""
