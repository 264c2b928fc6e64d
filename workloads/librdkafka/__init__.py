"""librdkafka by its own functions for many records at once, which confluent-kafka does not have:
with that, each record is a call, each report an object and a callback, and what is read an object.

It is the very library that confluent-kafka has loaded: clients of both kinds are in one process.
"""
