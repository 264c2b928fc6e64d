"""The targets of a fault: expressions by role, the nodes they name when it strikes, and upper
limits of them.

The limits are known before there is a cluster.
"""
