"""The broker's runtime, on asyncio: it feeds the state machines and carries out their effects.

:mod:`~broker.server.app` puts the parts together. A subpackage with the name of a package of state
machines (``replication``, ``controller``, ``coordination``, ``groups``) carries out its effects.
``requests`` handles the requests of clients and other brokers. A contract in ``pyproject.toml``
says which packages may import which.
"""
