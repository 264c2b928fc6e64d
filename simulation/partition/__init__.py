"""What is known of one partition from the steps of its replicas, and what must hold of it.

Nothing here reads a log or asks a broker: an observer says what happened, and these keep count.
"""
