"""The campaign file: its model, its problems, and the plan that follows from it."""
