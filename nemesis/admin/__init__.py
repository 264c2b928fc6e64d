"""Faults that are an administrator's orders, given while producers write: on partitions, brokers
and settings (``orders``), and on topics of the faults' own and of the workload (``topics``)."""
