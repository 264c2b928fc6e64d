"""The judgement at the end of a run, after all faults are healed."""
