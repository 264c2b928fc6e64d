"""Where a host is."""

import ipaddress
import json
import os
from shutil import which

from ackproof.infra.agent import privilege
from ackproof.infra.agent.children import carry_out


def addresses() -> list[str]:
    """Every address it has, but for those that nobody else sees; the one that we have reached it at
    is among them."""
    return sorted({_ssh_connection()[2], *_of_interfaces()})


def ssh_port() -> int:
    """The port that our connection has come to."""
    return int(_ssh_connection()[3])


def _ssh_connection() -> list[str]:
    """Address and port of the client, address and port here."""
    return os.environ["SSH_CONNECTION"].split()


def _of_interfaces() -> list[str]:
    program = which("ip", path=privilege.search_path())
    if program is None:
        return []
    _, told, _ = carry_out([program, "-j", "address"])
    entries = [info for link in json.loads(told or "[]") for info in link["addr_info"]]
    found = [ipaddress.ip_address(entry["local"]) for entry in entries if "local" in entry]
    return [str(address) for address in found if not (address.is_loopback or address.is_link_local)]
