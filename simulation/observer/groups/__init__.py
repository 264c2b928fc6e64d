"""A consumer group as Kafka's protocol promises it: what a coordinator may make of it in a step."""
