"""A world: all simulated parts together, run by a plan, with the faults that the plan injects."""
