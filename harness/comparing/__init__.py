"""Two campaigns' results held against each other: what changed, and what chance may have done.

What is alike and independent is what tests rest on (``harness.report.chance``), and records are
neither: a fault loses thousands of one partition at once, or delays them all. So losses are counted
by partition and fault, and times by five seconds of a run. What differs between two runs may be
the machine's or the day's, which no test of one run each can tell; where a cell has enough runs on
both sides, these are what is compared.
"""
