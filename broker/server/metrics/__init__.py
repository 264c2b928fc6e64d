"""What the broker counts and shows, under the names of Kafka's MBeans, for Prometheus.

Whoever has something to count imports this room; it imports none.
"""
