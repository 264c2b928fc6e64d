"""Ackproof, under one import name: in a checkout its parts are links to the folders beside it."""
