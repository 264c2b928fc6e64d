"""Trends: the results of each campaign from night to night, in a file of lines and on pages.

``night`` holds one result as figures, ``night_file`` stores many of them, and ``trend`` and
``charts`` display them. The index of a results directory shows the same trends of the results
beside it.
"""
