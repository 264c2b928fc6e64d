"""A plug-in of Ackproof with one fault."""
