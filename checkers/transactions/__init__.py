"""What transactions owe (docs/checkers.md): a cell at a time, since a transaction goes over
partitions. Whether a record that was acked is in the log is for the rules of each partition: the
log keeps what was aborted, too. Here is asked which of it counts as committed."""
