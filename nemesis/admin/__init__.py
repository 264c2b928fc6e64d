"""Faults that are an administrator's orders, given while producers write: on partitions, brokers
and settings (``orders``), on topics of the faults' own (``churn``) and of the workload
(``live_topics``)."""
