"""The broker's runtime, on asyncio: feeds the state machines, carries out what they say.

:mod:`~broker.server.app` puts the parts together. Rooms with the name of a room of state machines
(``replication``, ``controller``, ``coordination``, ``groups``) are its hands; ``requests`` is what
clients and other brokers ask for. Who may import whom is a contract in ``pyproject.toml``.
"""
