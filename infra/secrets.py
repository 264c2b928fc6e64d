"""Secrets, which stand in no file that is kept: where each is, and what it is when it is needed."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from infra.interface import InfraError


class Secret(BaseModel):
    """Where a secret is: in the environment variable ``env``, or in a ``file``, without the line
    break at its end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: str | None = None
    file: str | None = None

    def read(self) -> str:
        """Raises InfraError when it is not there."""
        if self.env is not None:
            if self.env not in os.environ:
                raise InfraError(f"the environment variable {self.env} is not set")
            return os.environ[self.env]
        try:
            content = Path(self.file or "").expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            # A decoding error shows the bytes that it does not understand.
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise InfraError(f"the secret in {self.file} cannot be read: {why}") from None
        return content.rstrip("\r\n")


def read_all(secrets: Mapping[str, Secret]) -> Mapping[str, str]:
    """Each of them. Raises InfraError naming the property of the first that is not there."""
    found = {}
    for name, secret in secrets.items():
        try:
            found[name] = secret.read()
        except InfraError as lacking:
            raise InfraError(f"{name}: {lacking}") from None
    return found
