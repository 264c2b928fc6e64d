"""What brokers write in ZooKeeper, and what they make of the answers."""
