"""What SFTP cannot say in one round trip."""

import stat
from pathlib import Path


def mkdir(path: str) -> None:
    """Make a directory and those above it."""
    Path(path).mkdir(parents=True, exist_ok=True)


def tree(path: str) -> list[dict[str, object]]:
    """Everything below a directory, parents first; of a file, itself alone under the name ``""``.
    ``stamp`` changes whenever the content may have. Raises FileNotFoundError."""
    top = Path(path)
    found = [_entry(top, "")]
    pending = [top] if found[0]["kind"] == "directory" else []
    while pending:
        directory = pending.pop()
        for child in sorted(directory.iterdir()):
            try:
                entry = _entry(child, str(child.relative_to(top)))
            except FileNotFoundError:  # gone since
                continue
            found.append(entry)
            if entry["kind"] == "directory":
                pending.append(child)
    return found


def _entry(path: Path, name: str) -> dict[str, object]:
    status = path.lstat()
    entry: dict[str, object] = {"name": name, "kind": "other"}
    if stat.S_ISDIR(status.st_mode):
        entry["kind"] = "directory"
    elif stat.S_ISREG(status.st_mode):
        entry["kind"] = "file"
        entry["stamp"] = [status.st_ino, status.st_size, status.st_mtime_ns]
    elif stat.S_ISLNK(status.st_mode):
        entry["kind"] = "link"
        entry["target"] = str(path.readlink())
    return entry
