"""The ssh backend: each node is a host of an inventory."""
