"""Who sent a request, for the few handlers that want to know."""

from typing import NamedTuple


class Client(NamedTuple):
    """``client.id`` as the client chose it, and its host as groups show it, e.g. ``/10.0.0.1``."""

    id: str
    host: str
