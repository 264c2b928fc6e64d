"""What ``validate`` and ``run`` say of a campaign before it runs: its cells with their topics, and
what is likely a mistake in it."""

import click
from rich import box
from rich.table import Table

from ackproof.harness.campaign import lint
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.validation import CampaignFile
from ackproof.harness.console import plain
from ackproof.infra.systems.product import is_external
from ackproof.nemesis.interface import OWN_TOPICS

_HEADINGS = ("cell", "topic", "partitions", "replicas")


def cells_table(campaign: Campaign) -> Table:
    """Return the cells of a campaign and their topics. On a cluster of one's own the names of
    topics have the seed, which may not be drawn yet."""
    cells = campaign.cells
    if is_external(campaign.cluster.system) and not cells.prefix:
        cells = cells.model_copy(update={"prefix": f"{OWN_TOPICS}SEED-"})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _HEADINGS:
        number = heading in ("partitions", "replicas")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for cell in expand(cells):
        counts = (str(cell.partitions), str(cell.replication_factor))
        table.add_row(plain(cell.name), plain(cell.topic), *counts)
    return table


def print_warnings(file: CampaignFile, campaign: Campaign) -> None:
    """Print what is likely a mistake on standard error, each with its place in the file."""
    for one in file.document.refused(lint.warnings(campaign)):
        place = f":{one.position}" if one.position else ""
        click.echo(f"{file.document.path}{place}: warning: {one}", err=True)
