"""Two campaigns' results held against each other: what changed, and what chance may have done.

Tests rest on what is alike and independent (``harness.report.chance``), and records are neither: a
fault loses thousands of them at once, in every partition that it reaches, or delays them all; and
the machine or the hour makes a whole run slower. So runs are compared, whatever is measured. Where
a side has too few of them to tell anything, the comparison says how many it takes.
"""
