"""The records of one partition as columns. ``columns`` reads its tables, and ``indexing`` numbers
every record and determines its outcome. The result is a
:class:`~checkers.index.partition_history.PartitionHistory`, which all rules share. ``raw_logs``
reads brokers' segments. Nothing here judges."""
