"""librdkafka by its own functions for many records at once, which confluent-kafka does not have:
with that, each record is a call, and each report an object and a callback.

It is the very library that confluent-kafka has loaded: clients of both kinds are in one process.
"""
