"""Checks by the checkers of plug-ins: what each has to look at (``work``), and the examination of
one partition or cell by one checker (``examination``), with what is counted of it (``totals``)."""
