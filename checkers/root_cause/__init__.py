"""Root causes: the story of each anomaly (its *autopsy*), and what these stories have in common.

``partition_context`` puts together what is known of a partition.

- Records that are gone, lost or shown (``missing_records``): ``attribution`` says in which leader
  epoch each was acked and which leader came without it, ``stories`` what follows of that, and a
  sentence that says it.
- Records that stand more than once: ``duplicates``.
- Replicas that differ: ``divergence``.

No verdict rests on an autopsy.
"""
