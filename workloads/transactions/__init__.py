"""The workload ``transactions``: clients that write in transactions, over several partitions.

A cell has producers, each of which sends its records in transactions and commits or aborts them;
transformers, which read the cell in one group and write what they make of it back into it, together
with the offsets of what they read; and tail readers. What a transformer wrote is not transformed
again, so that one topic is enough.

What each client draws (how long a transaction is, what becomes of it) follows from the run's seed
and its name. A producer's client library is the cell's; all that reads is librdkafka's.
"""
