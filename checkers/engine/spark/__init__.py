"""Spark: a session, the classes it starts with and the modules it ships, and the jobs that carry
out the tasks."""
