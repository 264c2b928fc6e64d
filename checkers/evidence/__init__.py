"""The evidence of a run: what the manifest planned of it, what its small tables tell, and what is
missing. No record is looked at here.

``run`` gathers it; ``gaps``, ``writers``, ``crashes``, ``clocks``, ``steps`` and ``outside`` say
what of it is lacking, and for whom; ``promised`` what follows for each partition.
"""
