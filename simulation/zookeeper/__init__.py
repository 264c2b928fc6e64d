"""The simulated ZooKeeper: its tree, servers and sessions, and kazoo's client on top."""
