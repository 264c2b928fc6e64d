"""The use of Spark: a session, the archive of classes with which it starts, the modules that it
ships, and the jobs that run the tasks."""
