"""Pages with generated parts, and their pictures, for the scripts beside this one."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib.figure import Figure

DIRECTORY = Path(__file__).resolve().parent


def place(page: str, script: str, name: str, lines: Iterable[str]) -> str:
    """The page with these lines between the markers that name the script and what it makes there.

    An empty line comes between all that is no line of a table, or of a list.
    """
    between = re.compile(
        rf"(<!-- {re.escape(name)}, made by {re.escape(script)} -->\n).*?(<!-- until here -->)",
        re.S,
    )
    text = _paragraphs(lines)
    made, count = between.subn(lambda there: f"{there[1]}\n{text}\n\n{there[2]}", page)
    assert count == 1, f"no place for {name} on the page"
    return made


def _paragraphs(lines: Iterable[str]) -> str:
    text = "\n".join(line if line[:2] in ("| ", "- ") else f"\n{line}\n" for line in lines)
    text = re.sub(r"(\n- [^\n]*\n)(?=\|)|(\n\| [^\n]*\n)(?=- )", r"\g<0>\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


@contextmanager
def picture(name: str, size: tuple[float, float], ink: str) -> Iterator[Figure]:
    """A figure to draw on, of so many inches, saved beside the pages as ``name.svg``, with text
    that can be selected: the same bytes whenever the same is drawn."""
    style = {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 10, "text.color": ink}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(DIRECTORY / f"{name}.svg", metadata={"Date": None})
