"""The replica of one partition, as leader or follower, without I/O.

It covers the log end, the high watermark, the ISR, leader epochs and truncation. Events go in and
effects come out (:meth:`broker.replication.replica.Replica.step`). The log itself is
:mod:`broker.log`.
"""
