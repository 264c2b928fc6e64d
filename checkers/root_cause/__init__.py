"""Root causes: the narrative of each anomaly, and the causes that anomalies share.

``partition_context`` collects the context of a partition.

- Missing records, lost or read (``missing_records``): ``attribution`` determines the leader epoch
  in which each was acked and the leader that came without it. ``narratives`` draws the conclusions
  and writes the sentence.
- Records that are in the log more than once: ``duplicates``.
- Replicas that differ: ``divergence``.

No verdict depends on a root cause.
"""
