"""Apache Kafka with KRaft: controllers of its own keep the cluster's metadata, in a log.

The log (``__cluster_metadata-0``) is fetched from the active controller as a broker fetches it, so
that every change is seen, in the order and with the numbers that the controllers gave them. It is
what ZooKeeper's znodes are to :mod:`infra.systems.view`.
"""
