"""The autopsies of records that stand in a partition's log more than once."""
