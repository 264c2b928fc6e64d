"""What tasks need of us on machines where this project is not installed: the rooms that they run,
as one file that Spark hands to every worker. Libraries (PyArrow, NumPy, kio) have to be there."""

import zipfile
from importlib.resources import files
from pathlib import Path

ROOMS = ("checkers", "history", "plugins")


def packed(path: Path) -> Path:
    """Write the modules of these rooms into a zip file, for ``SparkContext.addPyFile``. Raises
    OSError."""
    package = Path(str(files("ackproof")))
    rooms = (module for room in ROOMS for module in sorted((package / room).rglob("*.py")))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packing:
        for module in (package / "__init__.py", *rooms):
            packing.write(module, module.relative_to(package.parent))
    return path
