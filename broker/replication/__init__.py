"""One partition's replica, as leader or follower: sans-I/O.

Log end, high watermark, ISR, leader epochs, truncation. Events in, effects out
(:meth:`broker.replication.replica.Replica.step`); the log itself is :mod:`broker.log`.
"""
