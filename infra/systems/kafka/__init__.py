"""Apache Kafka: its releases, their jars, and the start of its brokers."""
