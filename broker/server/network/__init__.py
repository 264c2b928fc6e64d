"""Sockets: incoming connections, and those to other brokers. Frames are opaque here, except for the
answers to this broker's own requests."""
