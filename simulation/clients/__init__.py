"""Clients over the real wire code: producers, members of groups, administrators.

They write down what they asked for and were told (:mod:`simulation.model.history`).
"""
