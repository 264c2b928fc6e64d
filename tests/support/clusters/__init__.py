"""Real clusters on this machine: the bundled broker, Apache Kafka, ZooKeeper."""
