"""Apache Kafka with KRaft: controllers of its own keep the cluster's metadata, in a log.

The log (``__cluster_metadata-0``) is fetched from the active controller as by a broker. Every
change is therefore seen, in the order and with the numbers of the controllers. The log takes the
place of ZooKeeper's znodes in :mod:`infra.systems.view`.
"""
