"""Secrets, which stand in no file that is kept: the place of each, and its value when it is needed.

A process that needs secrets gets those of the environment in its own environment, and only the path
of those in files (:func:`handed`). The content of a file comes into no environment, since ``ps``
shows that.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import InfraError


class Secret(BaseModel):
    """The place of a secret: the environment variable ``env``, or a ``file``.

    The line break at the end of the file is not part of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: str | None = None
    file: str | None = None

    @property
    def path(self) -> Path:
        """Return the absolute path of the file."""
        return Path(self.file or "").expanduser().absolute()

    def read(self) -> str:
        """Return the secret. Raises InfraError if it is not there."""
        if self.env is not None:
            if self.env not in os.environ:
                raise InfraError(f"the environment variable {self.env} is not set")
            return os.environ[self.env]
        try:
            content = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            # A decoding error would show the bytes that are not UTF-8.
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InfraError(f"the secret in {self.file} cannot be read: {why}") from None
        return content.rstrip("\r\n")


Handed = str | Mapping[str, str]
"""A value, or ``{"file": PATH}`` for that file's content, without the line break at its end."""


def handed(secrets: Mapping[str, Secret]) -> Mapping[str, Handed]:
    """Return each secret in the form for a process in another working directory.

    Raises the errors of :func:`read_all`, for files, too: an error is better here than there.
    """
    values = read_all(secrets)
    return {
        name: values[name] if secret.file is None else {"file": str(secret.path)}
        for name, secret in secrets.items()
    }


def read_all(secrets: Mapping[str, Secret]) -> Mapping[str, str]:
    """Return the value of each secret. Raises InfraError with the property of the first missing
    one."""
    found = {}
    for name, secret in secrets.items():
        try:
            found[name] = secret.read()
        except InfraError as lacking:
            raise InfraError(f"{name}: {lacking}") from None
    return found
