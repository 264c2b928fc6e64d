"""A plug-in of Ackproof with a fault and a system."""
