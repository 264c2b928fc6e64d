"""One partition's records as columns: its tables read (``columns``), every record numbered
(``numbering``) and told what became of it (``indexing``). What comes of it is a
:class:`~checkers.partition.indexes.PartitionHistory`, which all rules share. Nothing here
judges."""
