"""The commands of ``ackproof``, one module for each family."""
