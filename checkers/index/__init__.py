"""One partition's records as columns: its tables read (``columns``), every record numbered and told
what became of it (``indexing``). What comes of it is a
:class:`~checkers.index.partition_history.PartitionHistory`, which all rules share. ``raw_logs``
reads brokers' segments. Nothing here judges."""
