"""A campaign on several systems, side by side: the same seed, and so the same schedule, in one
report.

Each system has the campaign's results in a directory of its own, as ``ackproof run`` leaves them,
below that of the matrix. Existing results are not run again. A system refuses a campaign as a
whole, and the table says so, because a schedule without some of its faults would be a different
one.
"""
