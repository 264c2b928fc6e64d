"""Secrets, which stand in no file that is kept: where each is, and what it is when it is needed.

Whoever is started with secrets is handed those of our environment in its own, and of the others the
file alone (:func:`handed`): what is in a file is in no environment, which ``ps`` shows.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import InfraError


class Secret(BaseModel):
    """Where a secret is: in the environment variable ``env``, or in a ``file``, without the line
    break at its end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: str | None = None
    file: str | None = None

    @property
    def path(self) -> Path:
        """Of the file, whatever the working directory is."""
        return Path(self.file or "").expanduser().absolute()

    def read(self) -> str:
        """Raises InfraError when it is not there."""
        if self.env is not None:
            if self.env not in os.environ:
                raise InfraError(f"the environment variable {self.env} is not set")
            return os.environ[self.env]
        try:
            content = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            # A decoding error shows the bytes that it does not understand.
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise InfraError(f"the secret in {self.file} cannot be read: {why}") from None
        return content.rstrip("\r\n")


Handed = str | Mapping[str, str]
"""A value, or ``{"file": PATH}`` for that file's content, without the line break at its end."""


def handed(secrets: Mapping[str, Secret]) -> Mapping[str, Handed]:
    """What a process is told of each that has our working directory no more. Raises as
    :func:`read_all`, for files, too: better here than there."""
    values = read_all(secrets)
    return {
        name: values[name] if secret.file is None else {"file": str(secret.path)}
        for name, secret in secrets.items()
    }


def read_all(secrets: Mapping[str, Secret]) -> Mapping[str, str]:
    """Each of them. Raises InfraError naming the property of the first that is not there."""
    found = {}
    for name, secret in secrets.items():
        try:
            found[name] = secret.read()
        except InfraError as lacking:
            raise InfraError(f"{name}: {lacking}") from None
    return found
