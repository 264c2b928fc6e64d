"""Mutations: the broker broken on purpose, which a search must find.

Functions of the broker's that are swapped for wrong ones while a search runs (:mod:`.swap`);
:mod:`.catalogue` has them by name.
"""
