"""What tasks need of us on machines where this project is not installed: the rooms that they run,
as one file that Spark hands to every worker. Libraries (PyArrow, NumPy, kio) have to be there."""

import zipfile
from importlib.resources import files
from pathlib import Path

ROOMS = ("checkers", "history")


def packed(path: Path) -> Path:
    """Write the modules of these rooms into a zip file, for ``SparkContext.addPyFile``. Raises
    OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packing:
        for room in ROOMS:
            top = Path(str(files(room)))
            for module in sorted(top.rglob("*.py")):
                packing.write(module, Path(room) / module.relative_to(top))
    return path
