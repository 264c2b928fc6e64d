"""The inventory: the hosts that clusters may be deployed on, in a YAML file.

    known_hosts: ~/.ssh/known_hosts     # host keys are looked up, and accepted ones added, here
    directory: ~/.ackproof              # on every host: all that is ever put there
    defaults:                           # of every host and jump host
      user: admin
      key: ~/.ssh/id_ed25519            # else: the SSH agent's keys and the usual files
      passphrase.env: KEY_PASSPHRASE    # name of the environment variable that holds it
      port: 22
    hosts:
      - address: 192.0.2.11             # a name or an IPv4 address, reached by the other hosts too
        roles: [broker]                 # of: broker, zookeeper (with KRaft: controllers), client;
                                        # all of them by default
        jump: {address: bastion.example.org}

A host carries one node of a run: what is cut off is then this node alone. A jump host is for SSH
only: the harness reaches the brokers and ZooKeeper without it (a route, a VPN).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ackproof.config.documents import (
    VARIABLE,
    DocumentRefused,
    PatternDescription,
    Problem,
    problems_of,
    read,
)

Role = Literal["broker", "zookeeper", "client"]
ROLES: tuple[Role, ...] = ("broker", "zookeeper", "client")
_STAND_FOR = {"controller": "zookeeper"}
"""The role of the servers that keep the metadata with KRaft."""
Port = Annotated[int, Field(ge=1, le=65535)]
Address = Annotated[
    str,
    PatternDescription(
        r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$", "a host name or an IPv4 address"
    ),
]
User = Annotated[
    str,
    PatternDescription(
        r"^[A-Za-z_][A-Za-z0-9_.-]*$", "a user name: letters, digits, dots, _ and -"
    ),
]


def _dotted(field_name: str) -> str:
    return field_name.replace("_", ".") if field_name == "passphrase_env" else field_name


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=_dotted, populate_by_name=False
    )


class Login(_Section):
    """The way to log in at a host. ``passphrase_env`` names the variable with the key's passphrase.

    The passphrase is in no file.
    """

    address: Address
    user: User
    port: Port = 22
    key: Path | None = None
    passphrase_env: Annotated[str, VARIABLE] | None = None

    @field_validator("key")
    @classmethod
    def _exists(cls, value: Path | None) -> Path | None:
        return None if value is None else _readable(value)

    @field_validator("passphrase_env")
    @classmethod
    def _is_set(cls, value: str | None) -> str | None:
        if value is not None and value not in os.environ:
            raise ValueError(f"the environment variable {value} is not set")
        return value

    @property
    def passphrase(self) -> str | None:
        """Return the key's passphrase. It is read on demand, and is in no object that could be
        printed."""
        return None if self.passphrase_env is None else os.environ[self.passphrase_env]

    def __str__(self) -> str:
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


class Host(Login):
    """A host that may carry a node."""

    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ROLES
    jump: Login | None = None

    @field_validator("roles")
    @classmethod
    def _each_once(cls, value: tuple[Role, ...]) -> tuple[Role, ...]:
        if len(set(value)) < len(value):
            raise ValueError(f"each role once, not {', '.join(value)}")
        return value


DIRECTORY = "/var/lib/ackproof"
"""The directory of an agent beside a broker that runs already, and of all that it writes there."""


@dataclass(frozen=True, slots=True)
class BrokerHost:
    """A host on which a broker runs already, and the file that must hold the host's key."""

    login: Login
    known_hosts: Path


class _Defaults(_Section):
    user: User | None = None
    port: Port | None = None
    key: Path | None = None
    passphrase_env: str | None = None
    jump: Mapping[str, Any] | None = None


class Inventory(_Section):
    """An inventory file, read from ``path``."""

    known_hosts: Path = Path("~/.ssh/known_hosts")
    directory: Annotated[
        str,
        PatternDescription(
            r"^(~/|/).*[^/]$", "a directory that begins with / or ~/, without / at its end"
        ),
    ] = "~/.ackproof"
    defaults: _Defaults = _Defaults()
    hosts: tuple[Host, ...]

    @field_validator("known_hosts")
    @classmethod
    def _expanded(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("hosts")
    @classmethod
    def _some_and_different(cls, value: tuple[Host, ...]) -> tuple[Host, ...]:
        if not value:
            raise ValueError("at least one host is needed")
        places = [str(host) for host in value]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            raise ValueError(f"given twice: {', '.join(twice)}")
        return value


class InventoryRefused(DocumentRefused):
    """An inventory file is invalid, or lacks hosts that are needed."""


def load(path: Path) -> Inventory:
    """Return the inventory in the file ``path``. Raises InventoryRefused with all its problems."""
    try:
        document = read(path)
    except DocumentRefused as refused:
        raise InventoryRefused(path, refused.problems) from None
    try:
        found = Inventory.model_validate_json(json.dumps(_filled_in(document.content)))
    except ValidationError as invalid:
        problems = problems_of(invalid, Inventory.model_json_schema(by_alias=True))
        raise InventoryRefused(path, document.refused(problems)) from None
    if document.problems:
        raise InventoryRefused(path, document.refused())
    return found


def place(names: Sequence[str], hosts: Sequence[Host]) -> dict[str, Host]:
    """Return a host for every node, the one with the fewest roles that is left.

    Raises LookupError with the role that has too few hosts. A name without a role (``broker-1`` has
    one) may be placed anywhere.
    """
    placed: dict[str, Host] = {}
    for name in names:
        free = [host for host in hosts if host not in placed.values()]
        role = _role(name)
        fit = [host for host in free if role not in ROLES or role in host.roles]
        if not fit:
            wanted = sum(_role(other) == role for other in names)
            raise LookupError(f"no host left for {name}: {_too_few(role, wanted, hosts)}")
        placed[name] = min(fit, key=lambda host: len(host.roles))
    return placed


def check_places(names: Sequence[str], inventory: Inventory, path: Path) -> None:
    """Raise InventoryRefused if there are too few hosts for the nodes ``names``."""
    try:
        place(names, inventory.hosts)
    except LookupError as lacking:
        raise InventoryRefused(path, [Problem(field="hosts", reason=str(lacking))]) from None


def _role(name: str) -> str:
    kind = name.rpartition("-")[0]
    return _STAND_FOR.get(kind, kind)


def _too_few(role: str, wanted: int, hosts: Sequence[Host]) -> str:
    if role not in ROLES:
        return f"{len(hosts)} hosts are too few, as each carries one node"
    able = sum(role in host.roles for host in hosts)
    return (
        f"{wanted} with the role {role} are needed, but only {able} of {len(hosts)} hosts "
        "have it, and each carries one node"
    )


def _filled_in(document: object) -> object:
    """Return the document, each host with the defaults filled in.

    A part of an unexpected shape is left for pydantic to refuse.
    """
    if not isinstance(document, dict) or not isinstance(document.get("hosts"), list):
        return document
    defaults = document.get("defaults")
    given = defaults if isinstance(defaults, dict) else {}
    known = {k: v for k, v in given.items() if k in ("user", "port", "key", "passphrase.env")}
    hosts = [_filled(host, known, given.get("jump")) for host in document["hosts"]]
    return document | {"hosts": hosts}


def _filled(host: Any, defaults: Mapping[str, Any], jump: Any) -> Any:
    if not isinstance(host, dict):
        return host
    filled = {**defaults, **({} if jump is None else {"jump": jump}), **host}
    if isinstance(filled.get("jump"), dict):
        filled["jump"] = {**defaults, **filled["jump"]}
    return filled


def _readable(path: Path) -> Path:
    expanded = path.expanduser()
    if not os.access(expanded, os.R_OK) or not expanded.is_file():
        raise ValueError(f"{path} is not a readable file")
    return expanded
