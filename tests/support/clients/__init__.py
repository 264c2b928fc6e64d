"""Clients of a cluster: librdkafka's, kio's, and bare sockets."""
