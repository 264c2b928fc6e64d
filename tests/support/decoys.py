"""Packages with the names of ours that cannot be imported."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[2] / "ackproof"


def lay_decoys(directory: Path) -> None:
    """Put a decoy of each of our packages below ``directory``. A process that is started there must
    not import what it finds there."""
    parts = (part.name for part in _PACKAGE.iterdir() if part.is_symlink())
    for name in (_PACKAGE.name, *parts):
        decoy = directory / name / "__init__.py"
        decoy.parent.mkdir()
        decoy.write_text("raise ImportError('this is a decoy')\n")
