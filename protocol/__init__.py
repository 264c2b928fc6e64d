"""Kafka's messages as others describe them, and the broker's classes that are made of it.

kio has a class for each message and version, made of Kafka's schemas. ``python -m protocol`` makes
of them the modules in ``broker/wire/messages``: one class for all versions of a message, as Kafka's
own are. The controller's calls, which kio lacks, stand here in the shape of kio's classes
(``interbroker.py``). A development tool: it is not deployed, and nobody imports it.
"""
