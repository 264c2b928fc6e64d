"""Producers of any client library, and of the user's own, under test: each is a program that speaks
one line protocol (docs/client-protocol.md), and everything that is recorded is recorded by us."""
