"""The start of runs without namespaces, the end of runs, and the removal of what dead runs left."""
