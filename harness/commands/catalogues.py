"""``ackproof faults | systems | clients | workloads | checkers``: the catalogues."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import click
from pydantic import BaseModel
from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ackproof import nemesis
from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.docs import number
from ackproof.harness.campaign.plan.faults import as_written
from ackproof.harness.campaign.plan.stories import Story, catalogue
from ackproof.harness.campaign.problems import places
from ackproof.harness.console import console
from ackproof.infra.clients.programs import CLIENTS, Client
from ackproof.infra.systems import SYSTEMS
from ackproof.infra.systems.product import Product
from ackproof.nemesis.examples import EXAMPLES, ORDERS
from ackproof.nemesis.interface import Fault
from ackproof.nemesis.targets import expressions
from ackproof.plugins import Registration
from ackproof.workloads import WORKLOADS
from ackproof.workloads.foreign.properties import LACKING
from ackproof.workloads.interface import Workload


@click.command(
    epilog="""\b
Examples:
  ackproof faults             all of them
  ackproof faults isolate     one of them
""",
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def faults(names: tuple[str, ...]) -> None:
    """List the faults with their needs, the backends that offer them, and their parameters, then
    the stories that are composed of them, and the targets. With NAMEs: only these faults and
    stories."""
    if not names:
        console().print(fault_catalogue())
        _tell_unusable(nemesis.FAULTS.registrations)
        return
    stories = catalogue()
    for name in names:
        if (reason := nemesis.FAULTS.refusal(name)) is not None:
            raise click.BadParameter(reason, param_hint="NAME")
    for name in _known(names, "fault", (*nemesis.FAULTS, *stories)):
        if name in nemesis.FAULTS:
            console().print(fault_entry(nemesis.FAULTS[name]))
        else:
            console().print(_story((name, stories[name])))


def fault_catalogue() -> Group:
    """Return every fault, every story, then every form of a target; they wrap at any width."""
    parts = [fault_entry(fault) for fault in nemesis.FAULTS.values()]
    return Group(
        *parts,
        Text("Stories: faults in a sequence. One entry each: story: NAME", style="bold"),
        *map(_story, catalogue().items()),
        Text("Targets", style="bold"),
        _two_columns(expressions.known().items()),
        _paragraph(
            "Sets are united by + and subtracted by - (with spaces around), and grouped by ( "
            "): isr(orders, any) - leader(orders, any). Links lead from one set to another: "
            "leader(orders, 0) -> zookeeper; <-> means both directions. partition is a "
            "number, or any: it is drawn by the seed, and is the same everywhere in one "
            "target."
        ),
    )


@click.command(
    epilog="""\b
Examples:
  ackproof systems                          all of them
  ackproof run quick --system kafka:4.4.0   put one of them to the test
""",
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def systems(names: tuple[str, ...]) -> None:
    """List the systems that can be put to the test, and how campaigns name them. With NAMEs: these
    alone."""
    for name in names:
        if (reason := SYSTEMS.refusal(name)) is not None:
            raise click.BadParameter(reason, param_hint="NAME")
    for name in _known(names, "system", SYSTEMS) or SYSTEMS:
        console().print(system_entry(SYSTEMS[name]))
    if not names:
        _tell_unusable(SYSTEMS.registrations)


def system_entry(product: Product) -> Group:
    """Return a system with the names that campaigns use for it."""
    plugin = SYSTEMS.plugin(product.name)
    facts = [] if plugin is None else [("plug-in", str(plugin))]
    facts += [("system", form) for form in product.forms]
    if product.versions:
        facts.append(("known versions", ", ".join(product.versions)))
    summary = Padding(Text(product.summary), (0, 0, 0, 2))
    return Group(Text(product.name, style="bold"), summary, _two_columns(facts), Text())


def _tell_unusable(registrations: Iterable[Registration]) -> None:
    for one in registrations:
        if one.problem is not None:
            click.echo(str(one), err=True)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def clients(names: tuple[str, ...]) -> None:
    """List the client libraries that cells and groups can use (client), and what they can do. With
    NAMEs: these alone.

    `ackproof doctor` says which of them can be started on this machine. A program of your own needs
    no plug-in: docs/client-protocol.md.
    """
    for name in names:
        if (reason := CLIENTS.refusal(name)) is not None:
            raise click.BadParameter(reason, param_hint="NAME")
    for name in _known(names, "client", CLIENTS) or CLIENTS:
        console().print(client_entry(CLIENTS[name]))
    if not names:
        _tell_unusable(CLIENTS.registrations)


def client_entry(client: Client) -> Group:
    """Return a client library with its capabilities."""
    plugin = CLIENTS.plugin(client.name)
    facts = [] if plugin is None else [("plug-in", str(plugin))]
    abilities = ("idempotence", "transactions", "transformers", "groups")
    facts += [(name, "yes" if getattr(client, name) else "no") for name in abilities]
    lacks = {**LACKING.get(client.name, {}), **client.lacks}
    facts += [(name, f"cannot be set: {why}") for name, why in lacks.items()]
    summary = Padding(Text(client.summary), (0, 0, 0, 2))
    return Group(Text(client.name, style="bold"), summary, _two_columns(facts), Text())


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def workloads(names: tuple[str, ...]) -> None:
    """List the workloads and their own parameters. With NAMEs: these alone."""
    for name in names:
        if (reason := WORKLOADS.refusal(name)) is not None:
            raise click.BadParameter(reason, param_hint="NAME")
    for name in _known(names, "workload", WORKLOADS) or WORKLOADS:
        console().print(workload_entry(WORKLOADS[name]))
    if not names:
        _tell_unusable(WORKLOADS.registrations)


def workload_entry(workload: Workload) -> Group:
    """Return a workload with its own parameters."""
    plugin = WORKLOADS.plugin(workload.name)
    facts = [] if plugin is None else [("plug-in", str(plugin))]
    facts.extend(_parameters(workload.parameters))
    summary = Padding(Text(workload.summary), (0, 0, 0, 2))
    return Group(Text(workload.name, style="bold"), summary, _two_columns(facts), Text())


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def checkers(names: tuple[str, ...]) -> None:
    """List the checkers: the anomalies they find in the recorded history, and the guarantees that
    these break. With NAMEs: these alone."""
    for name in names:
        if (reason := CATALOGUE.refusal(name)) is not None:
            raise click.BadParameter(reason, param_hint="NAME")
    chosen = _known(names, "checker", CATALOGUE) or tuple(CATALOGUE)
    rows = [(name, CATALOGUE[name].summary, CATALOGUE[name].breaks or "none") for name in chosen]
    _print(("checker", "what it reports", "guarantee"), rows)
    for name in chosen:
        if (plugin := CATALOGUE.plugin(name)) is not None:
            click.echo(f"{name} belongs to the plug-in {plugin}")
    if not names:
        _tell_unusable(CATALOGUE.registrations)


def _known(names: tuple[str, ...], kind: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the names. An unknown name is bad usage."""
    for name in names:
        if name not in known:
            raise click.BadParameter(unknown(kind, name, known), param_hint="NAME")
    return names


def fault_entry(fault: Fault) -> Group:
    """Return a fault with its needs, its parameters and examples; it wraps at any width."""
    needs = ", ".join(sorted(fault.needs)) or "nothing"
    plugin = nemesis.FAULTS.plugin(fault.name)
    facts = [] if plugin is None else [("plug-in", str(plugin))]
    facts += [("target", fault.aim.value), ("needs", needs)]
    facts += [(place, str(places.offer(fault, place))) for place in places.PLACES]
    facts.extend(_parameters(fault.parameters))
    facts.extend(("for example", text) for text in _examples(fault))
    summary = Padding(Text(fault.summary), (0, 0, 0, 2))
    return Group(Text(fault.name, style="bold"), summary, _two_columns(facts), Text())


def _examples(fault: Fault) -> Iterator[str]:
    for example in (*EXAMPLES, *ORDERS):
        if example.fault == fault.name:
            own = as_written(example.parameters)
            yield f"{example.target}{f'  ({own})' if own else ''}: {example.what}"


def _story(named: tuple[str, Story]) -> Group:
    name, story = named
    steps = " -> ".join(dict.fromkeys(f"{step.fault} {step.target}" for step in story.steps))
    facts = [("source", story.source), ("steps", steps)]
    if story.needs_topic:
        facts.append(("runs on", "a partition: topic, and partition (default: any)"))
    if story.replicas > 1:
        facts.append(("needs", f"{story.replicas} replicas"))
    summary = Padding(Text(story.summary), (0, 0, 0, 2))
    return Group(Text(name, style="bold"), summary, _two_columns(facts), Text())


def _parameters(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    nodes = model.model_json_schema(by_alias=False).get("properties", {})
    for name, field in model.model_fields.items():
        values = _values(nodes.get(name, {}))
        meaning = f"{field.description or ''}{f' ({values})' if values else ''}".lstrip()
        if field.is_required():
            yield f"{name} (required)", meaning
            continue
        yield as_written({name: field.default}) or f"{name} (not set)", meaning


def _values(node: Mapping[str, Any]) -> str:
    """Return the values or the range that a parameter allows; empty if its type allows all."""
    if "enum" in node:
        return ", ".join(map(str, node["enum"]))
    if node.get("type") in ("integer", "number"):
        return number(node).replace("integer", "")
    inner = (*node.get("anyOf", ()), *([node["items"]] if "items" in node else []))
    return ", ".join(filter(None, map(_values, inner)))


def _two_columns(rows: Iterable[tuple[str, str]]) -> Padding:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=16, max_width=34)
    table.add_column()
    for left, right in rows:
        table.add_row(Text(left), Text(right))
    return Padding(table, (0, 0, 0, 2))


def _paragraph(text: str) -> Padding:
    return Padding(Text(text), (1, 0, 0, 2))


def _print(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
