"""The checkers of what consumers were shown of a partition, and committed of it.

Each is a function from what one consumer was shown (:class:`checkers.reads.seen.Seen`), what all of
them were (:class:`checkers.reads.claims.Claim`), or what a group committed, to what is wrong with
it; the counts of clients and groups, and the rows of anomalies, are made of the same.
``docs/checkers.md`` has what each can prove.
"""
