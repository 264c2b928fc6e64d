"""``python -m protocol``: writes ``broker/wire/messages`` anew.

With ``--check`` it writes nothing, names what is stale, and exits with 1 if there is anything.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from protocol.apis import modules

MESSAGES = Path(__file__).resolve().parent.parent / "broker" / "wire" / "messages"


def stale(made: Mapping[str, str], directory: Path) -> set[Path]:
    """The files that are not what was made, or were made once and are not any more."""
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
