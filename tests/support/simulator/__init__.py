"""A whole cluster in one thread, driven by one seed.

The replicas are the real ones of ``broker.replication``; the logs, the network, ZooKeeper and the
controller are models. The seed chooses the cluster's shape, how often what happens, and what
happens next. Invariants are checked after every step; a violation carries the seed, and the seed
alone replays it: ``python -m simulator --seed N --trace``.

Modelled: messages in any order, lost, doubled, late; links cut in one direction; brokers killed
(memory lost, log kept, high watermark back at its checkpoint) and started; sessions that end while
the broker serves on; ISR writes whose outcome is unknown; leadership moved without need; retention.
Not modelled: lost or damaged disks, several controllers at a time, reassignment.
"""
