"""A process and everything below it, as this machine sees it."""

import subprocess

import psutil
from patience import PATIENCE_S


def family(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The process and everything below it; nobody of a process that has ended."""
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all of them end."""
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    return not alive
