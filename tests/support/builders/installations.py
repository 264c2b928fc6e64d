"""Plug-ins as they are when they are installed: a module, and the metadata of its distribution."""

from collections.abc import Callable
from pathlib import Path

Install = Callable[..., None]


def write_plugin(
    site: Path,
    name: str,
    source: str,
    *,
    version: str = "1.0",
    group: str = "ackproof.faults",
    **points: str,
) -> None:
    """Write a distribution with one module of the same name. ``points``: its entry points, in
    which ``_`` stands for a hyphen of the name."""
    (site / f"{name}.py").write_text(source, encoding="utf-8")
    metadata = site / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{point.replace('_', '-')} = {name}:{what}" for point, what in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")


# Packages with the names of ours that cannot be imported.

_PACKAGE = Path(__file__).parents[3] / "ackproof"


def lay_decoys(directory: Path) -> None:
    """Put a decoy of each of our packages below ``directory``. A process that is started there must
    not import what it finds there."""
    parts = (part.name for part in _PACKAGE.iterdir() if part.is_symlink())
    for name in (_PACKAGE.name, *parts):
        decoy = directory / name / "__init__.py"
        decoy.parent.mkdir()
        decoy.write_text("raise ImportError('this is a decoy')\n")
