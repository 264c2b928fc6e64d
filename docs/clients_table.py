"""``python docs/clients_table.py RESULTS``: the table in ``docs/clients.md``, of the results of
``campaigns/clients.yaml`` in the directory RESULTS."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ackproof.harness.comparing import libraries, sides  # noqa: E402
from ackproof.harness.directory import ResultsDirectoryError  # noqa: E402
from ackproof.history.errors import HistoryError  # noqa: E402

PAGE = ROOT / "docs/clients.md"
BEGIN, END = "<!-- made by docs/clients_table.py -->\n", "<!-- until here -->\n"


def main(arguments: list[str]) -> int:
    """0 when the table is written, 1 when there are no such results, 2 for wrong arguments."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    try:
        side = sides.read(Path(arguments[0]))
        made = libraries.table(libraries.libraries(side))
    except (ResultsDirectoryError, HistoryError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(f"{before}{begin}\n{made}\n{end}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
