"""The checkers, all listed by name in ``catalogue``.

- Rules (``acks``, ``records``) are pure functions from one partition's history to its anomalies.
- Reads and commits of consumers: ``check_reads`` examines one client after the other; ``reads``,
  ``claims`` and ``group_offsets`` find what is wrong; ``read_anomalies`` and ``read_counts`` turn
  that into rows and counts.
- Transactions extend over partitions: ``check_transactions`` examines a cell at a time.
- ``replicas`` compares the raw logs of brokers.
- ``latency`` and ``outages`` are measurements on which no verdict depends.
- ``plugin_examination`` calls the checkers of plug-ins.

Rows have the shape of ``checkers.checks.rows.ANOMALIES`` without the run. Checkers report facts,
whether or not a guarantee applied; ``checkers.guarantees.decisions`` turns facts into verdicts. A
rule omits what it cannot know from a partial history, and never guesses. ``docs/checkers.md`` says
what each checker can prove.
"""
