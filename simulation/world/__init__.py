"""A world: everything put together, run by a plan, and struck by what the plan says."""
