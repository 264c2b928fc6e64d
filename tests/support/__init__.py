"""Shared parts of the tests, by package."""
