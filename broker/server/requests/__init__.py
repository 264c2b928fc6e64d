"""Kafka's APIs, a module for each subject: what is read of a request, and what is answered.

``dispatch.py`` names all that is served. A handler is given the decoded request and the parts of
the broker (``context.py``), and names all that it knows: in which version it is answered is nothing
to it (:mod:`broker.wire.message`).
"""
