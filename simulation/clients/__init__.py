"""Clients over the real wire code: producers, members of groups, administrators.

They record their requests and the answers (:mod:`simulation.model.history`).
"""
