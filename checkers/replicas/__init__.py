"""Whether replicas hold the same log: their raw files, read by nobody else, compared byte by byte.

``collected`` says which copies of a partition can be compared, and how far; ``segments`` reads one
log, batch by batch; ``comparison`` walks two of them, and opens what differs (``records``).
"""
