"""Partitions that are too large for one task: split into slices, without a row found otherwise.

A *slice* is a range of sequence numbers, of all producers. What became of a record, how often it
stands in the log, and whether its ack names the right offset, is told by its own rows; so a slice
is indexed alone (:mod:`checkers.splitting.slices`), and put aside where the others find it.

What a rule says of a record may hang on one *witness* in another slice: the one that was acked at
its offset, the latest-sent one that stands before it, the lowest offset acked since. Each slice
fetches the witnesses of its own records, and theirs alone (:mod:`checkers.splitting.witnesses`).
Then the rules run on it as they are. They are monotone: of a part of a partition that has a record
and its witness they say of this record what they say of the whole. Rows on others are dropped.

What is *rare*, lost or there twice, is taken out of all slices and judged together, because an
autopsy tells one story of all of it (:mod:`checkers.splitting.rare`). Beyond so many records it is
judged part by part, with stories of their own. Gaps and epochs that go back are found where the log
is read once more, from edge to edge (:mod:`checkers.splitting.scan`).

Not split: a partition that somebody reads while it is written, whose reads are held against the
whole log; and one with a file that cannot be read, so that it is told as ever. Where two records
are told at one offset of the final log, or two acks came in the same nanosecond, the details may
name the other one.
"""
