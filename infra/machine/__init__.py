"""This machine: its programs, its processes, its registry of runs, and the user's commands."""
