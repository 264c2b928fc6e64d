"""The broker's metrics, under the names of Kafka's MBeans, for Prometheus.

Modules with something to count import this package, which imports none of them.
"""
