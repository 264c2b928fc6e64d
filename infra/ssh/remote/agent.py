"""The agent: this project's hand on a host, a program of the standard library alone.

Started over SSH as ``python3 -I agent.pyz serve``, it reads one JSON object a line, carries it out
and answers with one line; nothing of what it reads passes through a shell. It holds no state: when
the connection is lost it ends, and the next one knows everything from disk. What must outlive it
(supervisors, the guard) are processes of their own. Every operation may be asked twice.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from infra.ssh.remote import facts, files, links, processes, software, supervisor, tenancy
from infra.ssh.remote.privilege import Refused

OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "facts": facts.facts,
    "address": facts.connection_ends,
    "has": software.has,
    "unpack": software.unpack,
    "install_libraries": software.install_libraries,
    "acquire": tenancy.acquire,
    "renew": tenancy.renew,
    "tenant": tenancy.tenant,
    "release": tenancy.release,
    "purge": tenancy.purge,
    "start": processes.start,
    "look": processes.look,
    "signal": processes.send,
    "mkdir": files.mkdir,
    "tree": files.tree,
    "can_cut": links.obstacle,
    "cut": tenancy.cut,
    "heal": links.heal,
    "reaches": links.reaches,
}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer until the other side hangs up."""
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """``{"id", "result"}``, or ``{"id", "error", "text"}`` with what the caller tells apart."""
    number = request["id"]
    try:
        result = OPERATIONS[request["operation"]](**request["arguments"])
        return {"id": number, "result": result}
    except ProcessLookupError as error:
        return {"id": number, "error": "no-process", "text": str(error)}
    except FileNotFoundError as error:
        return {"id": number, "error": "no-file", "text": str(error)}
    except (Refused, OSError) as error:
        return {"id": number, "error": "failed", "text": str(error)}
    except Exception as error:  # noqa: BLE001 - told to the caller, who raises it
        return {"id": number, "error": "failed", "text": f"{type(error).__name__}: {error}"}


def main(arguments: list[str]) -> None:
    """``serve``; ``supervise DIRECTORY`` and ``guard BASE`` are started by the agent itself."""
    role, *rest = arguments
    if role == "serve":
        serve(sys.stdin, sys.stdout)
    elif role == "supervise":
        supervisor.supervise(Path(rest[0]))
    elif role == "guard":
        tenancy.guard(Path(rest[0]))
    else:
        sys.exit(f"no role {role!r}")
