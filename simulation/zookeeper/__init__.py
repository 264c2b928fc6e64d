"""The simulated ZooKeeper: its tree, its servers, its sessions, and kazoo's client on top."""
