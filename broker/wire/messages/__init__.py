"""Kafka's messages, a module for each API: made by ``python -m protocol``."""
