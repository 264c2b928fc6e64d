"""Trends: what became of each campaign from night to night, in a file of lines and on pages.

``night`` is one result in figures, ``night_file`` keeps many of them, ``trend`` and ``charts`` show
them to people. The index of a results directory shows the same trends of the results beside it.
"""
