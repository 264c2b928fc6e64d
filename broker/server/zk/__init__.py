"""ZooKeeper: one session, the contents of Kafka's znodes, and how they are read and written.

All of the broker's writes are here, each with what makes it safe (the session, the znode's version,
the controller's epoch). The exception is a broker without a controller
(:mod:`broker.server.coordination`), which has a tree of its own.
"""
