"""The execution of faults: open faults are recorded, effects are applied, and undone."""
