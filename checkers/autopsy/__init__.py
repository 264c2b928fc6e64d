"""Autopsies: the story of each anomaly, and what these stories have in common.

``gathering`` puts together what is known of a partition (a :class:`~checkers.autopsy.scene.Scene`).

- What is gone, lost or shown: ``deduplication`` says what nobody ever had, ``attribution`` in which
  leader epoch each of the others was acked and which leader came without it, ``explaining`` what
  follows of that, ``telling`` says it in a sentence; ``performing`` does it, and ``shown`` has what
  is of reads alone.
- What stands more than once: ``repeats``, likewise.
- Replicas that differ: ``partings``.

All of it is told, none of it is judged: no verdict rests on an autopsy.
"""
