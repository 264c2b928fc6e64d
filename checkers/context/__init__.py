"""The context of a run: everything that is known of it and its cluster before any record is
examined.

- The evidence: what the manifest planned, what the small tables say, and what is missing. ``run``
  gathers it; ``gaps``, ``writers``, ``clocks``, ``steps`` and ``final_reads`` say what is missing
  and for which cells.
- The cluster: its ``faults`` and how far they reach (``fault_windows``, ``pace``), what was
  ``observed`` of it, and where a fault left room for acks (``coverage``).
- The timeline of each partition (``timeline``): leaders, leader epochs and ISRs, from ZooKeeper and
  from the brokers' own logs (``broker_logs``).
- Validity windows: the time from which on acks are kept, reads stay and replicas agree
  (``surroundings``, ``validity``, ``partition_guarantees``), and the guarantee status of a time
  (``status``).
"""
