"""The commands of ``ackproof``, one module each family."""
