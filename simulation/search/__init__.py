"""The search for a failing seed, the shrinking of its plan, and the narrative of a run."""
