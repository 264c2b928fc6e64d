"""What is known of a run and its cluster before any record is looked at.

- The evidence: what the manifest planned, what small tables tell, and what is missing. ``run``
  gathers it; ``gaps``, ``writers``, ``clocks``, ``steps`` and ``final_reads`` say what of it is
  lacking, and for whom.
- The cluster: ``faults`` and how far they reach (``fault_windows``, ``pace``), what of it was
  ``observed``, and where a fault left room for acks (``coverage``).
- The timeline of each partition (``timeline``): leaders, leader epochs and ISRs, by the word of
  ZooKeeper and of the brokers (``broker_logs``).
- Validity windows: from when on acks are kept, what is shown stays, and replicas agree
  (``surroundings``, ``validity``, ``partition_guarantees``), and how a time stands to them
  (``status``).
"""
