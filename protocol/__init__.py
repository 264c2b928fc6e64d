"""The generator of the broker's message classes from Kafka's message schemas.

kio has a class for each message and version, made from Kafka's schemas. ``python -m protocol``
makes the modules in ``broker/wire/messages`` from them: one class for all versions of a message,
like Kafka's own. kio lacks the controller's calls, so they are defined here in the form of kio's
classes (``interbroker.py``). This is a development tool: it is not deployed, and no other package
imports it.
"""
