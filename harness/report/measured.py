"""What ``verdict.json`` says of what a cell cost, beside what it kept; see
:mod:`harness.report.document`."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of the document: each name with its meaning below it."""

    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class Outages(Part):
    """What of a cell's unavailability began within the reach of a fault."""

    fault: str | None
    """The fault, as `kill#1`; several, comma-separated; null: no fault was on."""
    longest_ms: int
    """The longest of any partition."""
    total_ms: int
    """All of all partitions, added up."""


class Unavailable(Part):
    """For how long a cell was asked and acknowledged nothing."""

    longest_ms: int
    """The longest outage of any of its partitions."""
    total_ms: int
    """All outages of all its partitions, added up."""
    by_fault: tuple[Outages, ...] = ()
    """The same by cause."""


class Latency(Part):
    """How long records of a cell took, every one of them; percentiles are at most 1 % too much."""

    records: int
    """How many are in it; a record that two tail readers were shown is two."""
    since_due: bool
    """Whether since they were due by their producer's schedule; else, where it has none, since they
    were handed to the client."""
    p50_ms: float
    """Within which half of them did."""
    p90_ms: float
    """Likewise 90 %."""
    p99_ms: float
    """Likewise 99 %."""
    p999_ms: float
    """Likewise 99.9 %."""
    longest_ms: float
    """The longest."""
