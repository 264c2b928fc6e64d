"""Whether replicas hold the same log: their raw logs compared byte by byte.

``collected`` says which copies of a partition can be compared, and how far; ``comparison`` walks
two of them (:mod:`checkers.raw_logs`), and opens what differs; ``divergence`` makes rows of it.
"""
