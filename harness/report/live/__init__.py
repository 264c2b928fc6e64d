"""A run that goes on, from the files that it has written so far: its metrics and its live page.

Nothing here runs in the process of the run. The history's rows are on disk within a second
(:mod:`history.writer`), so another process reads them. It cannot disturb the run, whatever becomes
of its readers, and ``ackproof serve`` shows a run that another command has started.
"""
