"""What a host is like."""

import ipaddress
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infra.java import told_version
from infra.ssh.remote import privilege


def facts() -> dict[str, Any]:
    """Of this host: what is installed, what it runs on, who we are there."""
    return {
        "home": str(Path.home()),
        "python": [*sys.version_info[:2]],
        "machine": platform.machine(),
        "libc": platform.libc_ver()[1],
        "distribution": _distribution(),
        "venv": find_spec("ensurepip") is not None,
        "java": _java(),
        "nft": shutil.which("nft", path=privilege.search_path()) is not None,
        "not_root": _obstacle(),
    }


def connection_ends() -> dict[str, Any]:
    """The two ends of our SSH connection as this host sees them, and every address it has."""
    client, _, server, port = os.environ["SSH_CONNECTION"].split()
    return {"peer": client, "port": int(port), "addresses": sorted({server, *_addresses()})}


def _obstacle() -> str | None:
    try:
        return privilege.obstacle()
    except privilege.Refused as error:
        return str(error)


def _distribution() -> list[str]:
    try:
        said = platform.freedesktop_os_release()
    except OSError:
        return ["unknown"]
    return [said["ID"], *said.get("ID_LIKE", "").split()]


def _java() -> dict[str, str] | None:
    program = shutil.which("java")
    if program is None:
        return None
    try:
        return {"path": program, "version": told_version(program)}
    except (OSError, subprocess.SubprocessError) as error:
        return {"path": program, "version": str(error)}


def _addresses() -> list[str]:
    """Of every interface but those that nobody else sees."""
    program = shutil.which("ip", path=privilege.search_path())
    if program is None:
        return []
    told = subprocess.run([program, "-j", "address"], capture_output=True, text=True, check=False)
    entries = [info for link in json.loads(told.stdout or "[]") for info in link["addr_info"]]
    found = [ipaddress.ip_address(entry["local"]) for entry in entries if "local" in entry]
    return [str(address) for address in found if not (address.is_loopback or address.is_link_local)]
