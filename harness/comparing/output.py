"""A comparison for people: on a terminal of 80 columns, and as a page."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackproof.harness.comparing.differences import CellDifference, Differences, MeasureLine
from ackproof.harness.comparing.sides import Side, cell_name
from ackproof.harness.console import plain
from ackproof.harness.report.chance import DOUBT
from ackproof.harness.report.rendering import templates
from ackproof.history.messages import printable, several

# --- the terminal ---------------------------------------------------------------------------------

_ENDS = {"worse": "bold red", "better": "green", "changed": "yellow"}


def print_differences(console: Console, found: Differences) -> None:
    """Print the two sides, their other differences, each cell, and the basis of the tests."""
    for name, side in (("A", found.a), ("B", found.b)):
        console.print(Text.assemble((f"{name}  ", "bold"), plain(_named(side))), soft_wrap=True)
    for sentence in found.unlike:
        console.print(Text.assemble("unlike: ", plain(sentence)))
    for cell in found.cells:
        console.print(_table(cell))
    if found.exposure:
        table = _bare("Exposure: faults with a loss, and the risk of a loss at such a fault")
        for line in found.exposure:
            table.add_row(line.what, plain(line.a), plain(line.b))
        console.print(table)
    for name, keys in (("A", found.only_a), ("B", found.only_b)):
        if keys:
            console.print(plain(f"only in {name}: {', '.join(map(cell_name, keys))}"))
    if not found.cells:
        console.print("the results have no cell in common")
    for sentence in _rests_on(found):
        console.print(Text(sentence, style="dim"))


def _named(side: Side) -> str:
    document = side.document
    when = document.began or "date unknown"
    runs = several(len(document.runs), "run")
    what = f"{document.campaign}, seed {document.seed}, {when}, {runs}"
    return f"{side.directory}: {what}: {document.words}"


def _bare(title: str) -> Table:
    table = Table(
        title=plain(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        expand=False,
    )
    table.add_column("", min_width=14)
    table.add_column("A")
    table.add_column("B")
    return table


def _table(cell: CellDifference) -> Table:
    table = _bare(cell.title_and_name)
    table.add_column("B against A", min_width=22)  # "within noise, p = 0.41"
    for line in cell.lines:
        table.add_row(
            line.measure.name, plain(line.measure.a), plain(line.measure.b), _result(line)
        )
    return table


def _result(line: MeasureLine) -> Text:
    if line.measure.name == "verdict":
        return Text(line.result, style=_ENDS.get(line.result, ""))
    return Text(line.result, style="bold" if line.differs else "dim")


def _rests_on(found: Differences) -> Iterator[str]:
    if found.tests:
        yield (
            "The tests ask whether the runs of A differ from those of B. There are "
            f"{found.tests} tests in total, and together they report a difference where there "
            f'is none in {DOUBT:.0%} of all comparisons. "Within noise" means that runs '
            "without a real difference are this far apart more often than that. A single "
            "lost record that a guarantee covers breaks the guarantee."
        )
    if any(min(cell.runs) < found.runs_needed for cell in found.cells):
        yield (
            "A fault loses many records at once or none, and the machine or the time of day "
            "changes a whole run. So whole runs are compared, and so few runs cannot show a "
            f"difference beyond chance. `runs: {found.runs_needed}` in both campaign files "
            "would be enough."
        )


# --- the page -------------------------------------------------------------------------------------


def render(found: Differences, reports: tuple[str, str], up: str = "") -> str:
    """Return the comparison as a page. ``reports`` are the links to the reports of A and B, empty
    for one that does not exist. ``up`` is the link to the list of all results, if there is one."""
    page = (
        templates()
        .get_template("differences.html")
        .render(
            found=found,
            sides=list(zip("AB", (found.a, found.b), reports, strict=True)),
            alone=[
                (name, [side.titles[key] for key in keys])
                for name, side, keys in (
                    ("A", found.a, found.only_a),
                    ("B", found.b, found.only_b),
                )
                if keys
            ],
            basis=list(_rests_on(found)),
            up=up,
        )
    )
    return printable(page)
