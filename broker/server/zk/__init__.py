"""ZooKeeper: one session, what is in Kafka's znodes, and how it is read and written.

All of the broker's writes are here, each with what makes it safe (the session, the znode's version,
the controller's epoch), but for those of a broker that has no controller
(:mod:`broker.server.coordination`), which has a tree of its own.
"""
