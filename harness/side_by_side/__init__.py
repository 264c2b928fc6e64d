"""A campaign on several systems, side by side: the same seed, so the same schedule, in one report.

Each system has the campaign's results in a directory of its own, as ``ackproof run`` leaves them,
below that of the matrix; what is there is not run again. What a system refuses it refuses as a
whole, and the table says so: a schedule without some of its faults would be another one.
"""
