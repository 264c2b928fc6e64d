"""The steps of a run, one module for each part of it."""
