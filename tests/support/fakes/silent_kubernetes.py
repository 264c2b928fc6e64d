"""A cluster of Kubernetes that does not answer."""

import json
from pathlib import Path

_CONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}
"""No process listens at this port."""


def silent_kubeconfig(directory: Path) -> str:
    """Write the kubeconfig of such a cluster into a directory, and return its path."""
    path = directory / "config"
    path.write_text(json.dumps(_CONFIG))
    return str(path)
