"""Reconciling partition by partition: the work is listed (``items``), shared out (``groups``), and
carried out in tasks (``task``), each of which has the rules look at its partitions (``reconcile``)
and hands back totals (``results``). Without Spark: that only runs the tasks."""
