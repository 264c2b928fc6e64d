"""The command ``python -m protocol``, which writes ``broker/wire/messages``.

With ``--check`` it writes nothing, names stale files, and exits with 1 if there are any.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from protocol.apis import modules

MESSAGES = Path(__file__).resolve().parent.parent / "broker" / "wire" / "messages"


def stale(made: Mapping[str, str], directory: Path) -> set[Path]:
    """Return the files that differ from the generated text, and those that are no longer
    generated."""
    there = {path for path in directory.glob("*.py") if path.name != "__init__.py"}
    wanted = {directory / f"{name}.py": text for name, text in made.items()}
    return (there - wanted.keys()) | {
        path
        for path, text in wanted.items()
        if path not in there or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    made = modules()
    found = stale(made, MESSAGES)
    for path in sorted(found):
        if "--check" in sys.argv[1:]:
            print(f"{path.name} is stale: python -m protocol")  # noqa: T201
        elif path.stem in made:
            path.write_text(made[path.stem], encoding="utf-8")
        else:
            path.unlink()
    return int("--check" in sys.argv[1:] and bool(found))


if __name__ == "__main__":
    sys.exit(main())
