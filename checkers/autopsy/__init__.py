"""Autopsies: the story of each lost record, and what these stories have in common.

``gathering`` puts together what is known of a partition (a :class:`~checkers.autopsy.scene.Scene`),
``attribution`` says in which leader epoch each record was acked and which leader came without it,
``explaining`` what follows of that, ``telling`` says it in a sentence. All of it is told, none of
it is judged: no verdict rests on an autopsy.
"""
