"""Kafka's protocol as bytes: frames, messages, record batches."""
