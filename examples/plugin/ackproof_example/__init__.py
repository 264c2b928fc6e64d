"""A plug-in of Ackproof with a fault, a system and a client library."""
