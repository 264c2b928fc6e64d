"""librdkafka by its own functions for many records at once, which confluent-kafka does not have.

With confluent-kafka each record is a call, each report an object and a callback, and each record
that is read an object. This is the same library that confluent-kafka has loaded, so clients of both
kinds are in one process.
"""
