"""Faults on links: cut ones (a grudge each), and lossy, reset, narrow or slow ones.

A fault strikes everything that goes over a link, or one service alone.
"""
