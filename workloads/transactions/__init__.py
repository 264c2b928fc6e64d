"""The workload ``transactions``: clients that write in transactions, over several partitions.

A cell has producers, transformers and tail readers. Each producer sends its records in transactions
and commits or aborts them. Transformers read the cell in one group and write what they make of it
back into it, together with the offsets of what they read. What a transformer wrote is not
transformed again, so that one topic is enough.

What each client draws (the length of a transaction, and its end) follows from the run's seed and
its name. Producers and transformers use the cell's client library, other readers librdkafka.
"""
