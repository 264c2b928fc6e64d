"""Apache Kafka: its releases, their jars, and how its brokers are run."""
