"""The comparison of two campaigns' results: the differences, and whether chance explains them.

Tests require observations that are alike and independent (``harness.report.chance``), and records
are neither. A fault loses thousands of them at once, in every partition that it reaches, or delays
them all. The machine or the hour makes a whole run slower. So runs are compared, for every measure.
If a side has too few of them for any conclusion, the comparison says how many are needed.
"""
