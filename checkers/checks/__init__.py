"""The checkers, all by name in ``catalogue``.

- Rules (``acks``, ``records``) are pure functions from one partition's history to its anomalies.
- What consumers were shown, and what groups committed: ``check_reads`` looks at one client after
  the other; ``reads``, ``claims`` and ``group_offsets`` say what is wrong, ``read_anomalies`` and
  ``read_counts`` make rows and counts of it.
- Transactions go over partitions: ``check_transactions`` looks at a cell at a time.
- ``replicas`` compares the raw logs of brokers.
- ``latency`` and ``outages`` are measures, on which no verdict rests.
- ``plugin_examination`` calls the checkers of plug-ins.

Rows have the shape of ``checkers.verdict.ANOMALIES`` without the run. Checkers state facts, whether
or not anything was promised; ``checkers.guarantees.decisions`` turns facts into verdicts. What a
rule cannot know from a partial history it leaves out, never guesses. ``docs/checkers.md`` has what
each can prove.
"""
