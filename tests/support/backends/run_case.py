"""Runs one case inside fresh namespaces: ``run_case.py <run id> <scratch> <file> <function>``.

The function gets the scratch directory; what it returns is the exit status.
"""

import importlib.util
import sys
import warnings
from pathlib import Path

from ackproof.infra.backends.local.enter import enter, inside


def main() -> int:
    run_id, scratch, file, function = sys.argv[1:]
    if not inside():
        enter([sys.executable, *sys.orig_argv[1:]], run_id, scratch=Path(scratch))
    warnings.simplefilter("error")
    spec = importlib.util.spec_from_file_location("case", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)(Path(scratch)) or 0


sys.exit(main())
