"""The engine: lists the work (``work_items``), divides it into ``tasks``, reads and indexes each
partition (``loading``), runs the checkers on it (``reconcile``), and adds up the ``results``.

A partition that is too large for one task is split into ``slices`` (``oversized_partitions``). The
package ``spark`` runs the tasks. Everything else also runs without Spark.
"""
