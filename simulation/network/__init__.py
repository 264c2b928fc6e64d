"""The network between simulated hosts, and TCP on it: links that are late, cut or silent."""
