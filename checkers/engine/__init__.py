"""The engine: lists the work (``work_items``), shares it out in ``tasks``, reads and indexes each
partition (``loading``), has the checkers look at it (``reconcile``), and adds up ``results``.

A partition that is too large for a task is split into ``slices`` (``oversized_partitions``). The
package ``spark`` runs the tasks; everything else runs without Spark, too.
"""
