"""Brokers' raw logs, as ``collect`` has fetched them: batches of their segments, the records in
these, and in which sessions of producers they were written. Nothing of a broker's code."""
