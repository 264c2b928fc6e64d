"""The campaign file: its model, what is wrong with it, its cells and its faults in time."""
