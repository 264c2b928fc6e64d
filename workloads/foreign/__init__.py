"""Producers, members of groups and transformers of any client library, and the user's own.

Each is a program that speaks one line protocol (docs/client-protocol.md). Our own code makes all
the records of the history.
"""
