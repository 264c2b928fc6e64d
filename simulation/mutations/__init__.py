"""Mutations: the broker broken on purpose, which a search must find.

Functions of the broker's that are swapped for wrong ones while a search runs (``swap.py``);
``catalogue.py`` has them by name.
"""
