"""Kafka's APIs, a module for each subject: what is read of a request, and what is answered.

``dispatch.py`` lists all that is served. A handler gets the decoded request and the parts of the
broker (``context.py``), and fills in every field that it knows. The version of the answer does not
concern it (:mod:`broker.wire.message`).
"""
