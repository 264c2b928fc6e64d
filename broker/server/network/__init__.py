"""Sockets: connections that come in, and those to other brokers. Frames are opaque here, but for
the answers to what this broker asked."""
