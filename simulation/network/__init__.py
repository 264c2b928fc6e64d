"""The network between simulated hosts, and TCP on it: links that are slow, cut or silent."""
