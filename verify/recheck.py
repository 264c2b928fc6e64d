"""``python verify/recheck.py DIR``: check results of Ackproof again, without Ackproof's code.

The program needs Python 3.11, ``duckdb``, and for signatures ``cryptography``. It checks the seal
that ``ackproof seal DIR`` wrote: all files are as they were sealed, and there is no other. Then it
derives from the Parquet files which records were lost, duplicated, reordered and so on, and
compares that with the counts and guarantees of ``verdict.json``.

It judges cells without transactions, retention and compaction, whose producers closed their files.
It says which guarantees it does not judge: those about consumers, replicas and epochs, and those
whose conditions depend on the data that a fault destroyed.

Exit status: 0 if everything agrees, 1 if something does not, 2 if the results cannot be read.
"""

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

SEAL = "seal.json"
PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:ackproof:verdict:1"
STATED = ("campaign", "seed", "began", "system", "verdict", "exit_status", "versions")
"""The keys of verdict.json whose values the seal states, too."""
SCRATCH = "scratch"
"""The directory at the top that holds no results. Names that begin with a dot hold none, either."""


class Unreadable(Exception):
    """The results are no results, or are damaged."""


@dataclass
class Report:
    """The result: sentences about what agrees, what disagrees, and what was not judged."""

    agreed: list[str] = field(default_factory=list)
    disagreed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


# --- the seal -------------------------------------------------------------------------------------


def check_seal(results: Path, keys: Sequence[bytes], report: Report, *, unsigned: bool) -> None:
    """Check the envelope (DSSE), its signatures, and that its statement is the one that follows
    from the files."""
    written = (results / SEAL).read_bytes()
    envelope = parsed(written, SEAL)
    if not isinstance(envelope, dict) or written != canonical(envelope) + b"\n":
        report.disagreed.append(f"{SEAL} is not as it was written")
        return
    payload = decoded(envelope.get("payload"))
    if envelope.get("payloadType") != PAYLOAD:
        report.disagreed.append(f"{SEAL} has another type than {PAYLOAD}")
    expected = statement(results)
    if payload != canonical(expected):
        report.disagreed += differences(parsed(payload, "the statement"), expected)
    else:
        report.agreed.append(f"the seal: {len(expected['subject'])} files are as they were sealed")
    check_signatures(envelope, payload, keys, report, unsigned=unsigned)


def check_signatures(
    envelope: Mapping[str, Any],
    payload: bytes,
    keys: Sequence[bytes],
    report: Report,
    *,
    unsigned: bool,
) -> None:
    """Check that the seal has a signature by each given key (PEM, Ed25519).

    Without a key, only an unsigned seal agrees, or any seal if ``unsigned`` says so.
    """
    signatures = envelope.get("signatures")
    if not keys:
        if signatures and not unsigned:
            report.disagreed.append("the seal is signed: give the public key, or --no-signature")
        report.left_out.append("signatures: no key was given")
        return
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_public_key,
    )

    kind = PAYLOAD.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    for key in keys:
        public: Any = load_pem_public_key(key)
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        for one in signatures or ():
            if one["keyid"] != hashlib.sha256(der).hexdigest():
                continue
            try:
                public.verify(decoded(one["sig"]), signed)
            except InvalidSignature:
                continue
            report.agreed.append("the signature is by the key that was given")
            break
        else:
            report.disagreed.append("no signature is by the key that was given")


def statement(results: Path) -> dict[str, Any]:
    """Return the in-toto statement that follows from the files."""
    verdict = parsed((results / "verdict.json").read_bytes(), "verdict.json")
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": digest(results / name)}}
            for name in sealed_files(results)
        ],
        "predicateType": PREDICATE,
        "predicate": {name: verdict[name] for name in STATED if name in verdict},
    }


def sealed_files(results: Path) -> list[str]:
    """Return the names of all files but the seal and those that are no results."""
    paths = (path.relative_to(results) for path in results.rglob("*") if path.is_file())
    return sorted(
        str(path)
        for path in paths
        if path.parts[0] not in (SCRATCH, SEAL) and not any(p.startswith(".") for p in path.parts)
    )


def differences(sealed: Any, expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between the sealed statement and the files."""
    if not isinstance(sealed, dict) or not isinstance(sealed.get("subject"), list):
        yield "the seal holds no statement"
        return
    before = {one["name"]: one["digest"]["sha256"] for one in sealed["subject"]}
    now = {one["name"]: one["digest"]["sha256"] for one in expected["subject"]}
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield f"{name} is missing"
        elif name not in before:
            yield f"{name} was not there when the results were sealed"
        elif before[name] != now[name]:
            yield f"{name} was changed"
    if before == now:
        yield "the seal states something else than verdict.json"


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def decoded(text: object) -> bytes:
    """Return what a text in base64 stands for. The same bytes have no other text: the last
    character has bits that a decoder ignores."""
    content = base64.b64decode(str(text), validate=True)
    if base64.b64encode(content).decode() != text:
        raise Unreadable(f"{SEAL} is not as it was written")
    return content


def parsed(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise Unreadable(f"{name} is not JSON: {error}") from None


# --- the evidence of a run ------------------------------------------------------------------------


VIEWS = """
create or replace table reads as select * from read_parquet($reads, union_by_name = true);
create or replace table log as
  select *, row_number() over (partition by topic, partition order by "offset") as place
  from read_parquet($log, union_by_name = true);
create or replace table record as
  select topic, partition, cell, producer, sequence,
    count(*) filter (type = 'invoke') as invokes,
    count(*) filter (type <> 'invoke') as ends,
    min(time) filter (type = 'invoke') as asked,
    max(time) filter (type <> 'invoke') as ended,
    bool_or(type = 'ok') as acked,
    bool_or(type = 'fail') as failed,
    max("offset") filter (type = 'ok') as acked_at
  from read_parquet($sends, union_by_name = true) group by all;
alter table record add column sound boolean;
update record set sound = invokes = 1 and ends <= 1 and coalesce(ended >= asked, true);
create or replace table stands as
  select topic, partition, cell, producer, sequence,
    count(*) as copies, min("offset") as first, min(place) as place
  from log where producer is not null group by all;
"""

COUNTS: Mapping[str, str] = {
    "sent": "select count(*) from record where cell = $cell and invokes > 0",
    "acked": "select count(*) from record where cell = $cell and acked",
    "failed": "select count(*) from record where cell = $cell and failed and not acked",
    # Acked before the final read began, and not in the log of its partition.
    "lost": """
      select count(*) from record r join reads d using (topic, partition)
      anti join stands s using (topic, partition, cell, producer, sequence)
      where r.cell = $cell and r.acked and r.sound and d.complete and r.ended < $began""",
    "duplicated": """
      select count(*) from stands s
      join record r using (topic, partition, cell, producer, sequence)
      where s.cell = $cell and s.copies > 1 and r.invokes > 0""",
    # The first copy follows one of a record that the same producer sent later.
    "reordered": """
      select count(*) from (
        select s.sequence, max(s.sequence) over (
          partition by s.topic, s.partition, s.producer order by s.place
          rows between unbounded preceding and 1 preceding) as before
        from stands s join record r using (topic, partition, cell, producer, sequence)
        where s.cell = $cell and r.invokes > 0)
      where before > sequence""",
    "phantom": """
      select count(*) from log l
      left join record r using (topic, partition, cell, producer, sequence)
      where l.topic = $topic and (l.cell is null or l.cell = $cell)
        and coalesce(r.invokes, 0) = 0""",
    "wrong-topic": """
      select count(*) from log where topic = $topic and cell is not null and cell <> $cell""",
    "failed-but-present": """
      select count(*) from record r
      join stands s using (topic, partition, cell, producer, sequence)
      where r.cell = $cell and r.failed and not r.acked and r.sound""",
    "offset-gap": """
      select count(*) from (
        select "offset" - lag("offset") over (partition by topic, partition order by "offset")
          as step
        from (
          select topic, partition, "offset" from log where topic = $topic
          union select topic, partition, log_start_offset - 1 from reads
            where topic = $topic and complete
          union select topic, partition, log_end_offset from reads
            where topic = $topic and complete))
      where step > 1""",
    # Of one producer, an ack with a lower offset than that of a record sent before.
    "nonmonotonic-send": """
      select count(*) from (
        select acked_at, max(acked_at) over (
          partition by topic, partition, producer order by sequence
          rows between unbounded preceding and 1 preceding) as before
        from record where cell = $cell and acked and sound and acked_at is not null)
      where before > acked_at""",
}
"""The counts of a cell, each a query. The names are those of verdict.json."""

OF_RUN = ("sent", "acked", "failed", "lost", "duplicated", "reordered")
"""The counts that verdict.json has for each cell."""

IN_ALL = ("phantom", "wrong-topic", "failed-but-present", "offset-gap", "nonmonotonic-send")
"""The counts that verdict.json has only for the campaign as a whole."""

GUARANTEES: Mapping[str, tuple[str, str]] = {
    "no-acked-record-lost": ("lost", "kept"),
    "no-duplicates": ("duplicated", "idempotent"),
    "no-reordering": ("reordered", "idempotent"),
    "acks-in-order": ("nonmonotonic-send", "idempotent"),
    "no-phantom": ("phantom", "recorded"),
    "own-topic": ("wrong-topic", "always"),
    "failed-records-absent": ("failed-but-present", "always"),
    "no-offset-gap": ("offset-gap", "always"),
}
"""The guarantees that are judged: the count that must be 0, and the condition."""

TAKES_DATA = ("elect-unclean", "bit-flip", "replace", "command")
"""Faults after which acks=all does not promise everything, beside those whose rows say what they
destroy."""
DELETES = ("advance-log-start",)
CRASHES = ("crash-client",)


@dataclass
class Run:
    """A run of the manifest, with its tables loaded."""

    planned: Mapping[str, Any]
    tables: duckdb.DuckDBPyConnection
    began: int
    faults: Sequence[tuple[str, str, Any, Any]]
    damage: list[str]
    unclosed: frozenset[str]
    """The topics of which a writer did not close its file of sends."""

    def had(self, names: Sequence[str]) -> bool:
        return any(name in names for name, *_ in self.faults) or any(
            one["fault"] in names for one in self.planned["faults"]
        )

    @property
    def takes_data(self) -> bool:
        return self.had(TAKES_DATA) or any(destroys for _, _, destroys, _ in self.faults)

    @property
    def fault_proven(self) -> bool:
        return any(event == "verified" and proven for _, event, _, proven in self.faults)

    def count(self, name: str, cell: Mapping[str, Any]) -> int:
        query = COUNTS[name]
        values = {"cell": cell["name"], "topic": cell["topic"], "began": self.began}
        used = {key: value for key, value in values.items() if f"${key}" in query}
        row = self.tables.execute(query, used).fetchone()
        assert row is not None
        return int(row[0])


def load(results: Path, planned: Mapping[str, Any]) -> Run:
    """Load the tables of a run."""
    history = results / "runs" / str(planned["number"]) / "history"
    if not history.is_dir():
        raise Unreadable(f"{history} does not exist")
    tables = duckdb.connect()

    def files(table: str) -> list[str]:
        return sorted(map(str, history.glob(f"{table}.*.parquet")))

    found = {table: files(table) for table in ("reads", "log", "sends")}
    if lacking := [table for table, some in found.items() if not some]:
        raise Unreadable(f"run {planned['number']} has no table {', '.join(lacking)}")
    for statement_ in VIEWS.split(";\n"):
        used = {name: some for name, some in found.items() if f"${name}" in statement_}
        if statement_.strip():
            tables.execute(statement_, used)
    phases = tables.execute(
        "select min(time) from read_parquet($files) where phase = 'final-read' and event = 'start'",
        {"files": files("phases")},
    ).fetchone()
    faults: list[tuple[str, str, Any, Any]] = []
    if own := files("faults"):
        faults = tables.execute(
            "select fault, event, destroys, proven from read_parquet($files)", {"files": own}
        ).fetchall()
    began = phases[0] if phases and phases[0] is not None else 0
    parts = history.glob("sends.*.part-*.arrows")
    unclosed = frozenset(path.name.split(".")[1].replace("~", ".") for path in parts)
    return Run(planned, tables, began, faults, list(damaged(history, tables)), unclosed)


def damaged(history: Path, tables: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield which files are not as their writers closed them."""
    for closing in sorted(history.glob("closings.*.parquet")):
        rows = tables.execute(
            'select "table", writer, topic, partition, rows, digest from read_parquet($file)',
            {"file": str(closing)},
        ).fetchall()
        for table, writer, topic, partition, count, expected in rows:
            if not count or expected is None:
                continue
            parts = [table, *([] if topic is None else [topic, str(partition)]), writer]
            file = history / f"{'.'.join(part.replace('.', '~') for part in parts)}.parquet"
            if not file.is_file():
                yield f"{file.name} is missing"
            elif digest(file) != expected:
                yield f"{file.name} is not as its writer closed it"


# --- the comparison with the verdict --------------------------------------------------------------


def outside(planned: Mapping[str, Any], run: Run) -> str | None:
    """Return why a cell is not judged; None if it is."""
    settings = planned["cell"]["settings"]
    if planned["transactional"]:
        return "it has transactions"
    if "compact" in str(settings.get("topic.cleanup.policy", "")):
        return "it is compacted"
    if any(str(settings.get(f"topic.retention.{unit}", "-1")) != "-1" for unit in ("ms", "bytes")):
        return "it sets a retention"
    if planned["cell"]["topic"] in run.unclosed:
        return "a producer did not close its file"
    return "an order deletes records" if run.had(DELETES) else None


def holds(condition: str, cell: Mapping[str, Any], run: Run) -> bool:
    """Return whether a guarantee is promised for the whole cell, as far as this program knows."""
    settings = cell["settings"]
    kept = (
        str(settings.get("acks")) in ("all", "-1")
        and str(settings.get("unclean.leader.election.enable", "false")).lower() == "false"
        and not run.takes_data
    )
    idempotent = str(settings.get("enable.idempotence", "false")).lower() == "true"
    return {
        "always": True,
        "recorded": not run.had(CRASHES) and not run.damage,
        "kept": kept,
        "idempotent": kept and idempotent,
    }[condition]


def compare(
    run: Run, planned: Mapping[str, Any], sealed: Mapping[str, Any], to: Report
) -> Mapping[str, int] | None:
    """Compare the counts and guarantees of one cell with those of verdict.json. Return its counts;
    None if it is not judged."""
    cell = planned["cell"]
    name = f"run {run.planned['number']}, {cell['name']}"
    if (why := outside(planned, run)) is not None:
        to.left_out.append(f"{name}: {why}")
        return None
    found = {what: run.count(what, cell) for what in COUNTS}
    for what in OF_RUN:
        if sealed[what] is None:
            to.left_out.append(f"{name}: {what}, which the verdict does not know, either")
        elif sealed[what] != found[what]:
            to.disagreed.append(f"{name}: {found[what]:,} {what}, not {sealed[what]:,}")
        else:
            to.agreed.append(f"{name}: {found[what]:,} {what}")
    told = {one["name"]: one for one in sealed["guarantees"]}
    for guarantee, (what, condition) in GUARANTEES.items():
        if guarantee not in told:
            continue
        if not holds(condition, cell, run):
            to.left_out.append(f"{name}: {guarantee}, whose conditions it does not know")
            continue
        judge(name, guarantee, found[what], told[guarantee], to)
    others = sorted(told.keys() - GUARANTEES.keys())
    to.left_out.append(f"{name}: {', '.join(others)}, which it does not judge")
    if sealed["verdict"] == "pass":
        to.disagreed += [f"{name}: it passed, but {why}" for why in lacking(run, planned, found)]
    return found


def judge(name: str, guarantee: str, count: int, told: Mapping[str, Any], to: Report) -> None:
    """Compare one guarantee of a cell."""
    if guarantee == "no-duplicates" and count and not told["broken"]:
        # Copies of different sessions violate nothing, and only raw logs show the sessions.
        to.left_out.append(f"{name}: {guarantee}, because it does not read sessions in raw logs")
    elif told["broken"] and not count:
        to.disagreed.append(f"{name}: {guarantee} is said to be broken, but nothing breaks it")
    elif count and told["held"]:
        to.disagreed.append(f"{name}: {guarantee} is said to have held, but {count:,} break it")
    elif count and not told["broken"]:
        to.disagreed.append(f"{name}: {guarantee} is said to be unknown, but {count:,} break it")
    elif told["held"] is None:
        to.left_out.append(f"{name}: {guarantee}, of which the verdict says nothing, either")
    else:
        to.agreed.append(f"{name}: {guarantee} {'broken' if count else 'held'}")


def lacking(run: Run, planned: Mapping[str, Any], found: Mapping[str, int]) -> Iterator[str]:
    """Yield the evidence that a pass needs and a cell lacks."""
    topic = planned["cell"]["topic"]
    yield from run.damage
    if found["acked"] < planned["acked_min"]:
        yield f"{found['acked']:,} records were acknowledged, not {planned['acked_min']:,}"
    reads = run.tables.execute(
        "select count(*) filter (complete), count(*) from reads where topic = $topic",
        {"topic": topic},
    ).fetchone()
    partitions = int(planned["cell"]["settings"]["partitions"])
    if reads != (partitions, partitions):
        yield "not every partition was read to its end"
    if run.planned["faults"] and not run.fault_proven:
        yield "no fault is proven to have taken effect"
    if not run.had(CRASHES):
        gaps = run.tables.execute(
            "select count(*) from (select max(sequence) + 1 - count(distinct sequence) as missing "
            "from record where cell = $cell group by producer) where missing > 0",
            {"cell": planned["cell"]["name"]},
        ).fetchone()
        if gaps and gaps[0]:
            yield "sends are missing from the history"


def recheck(results: Path, report: Report) -> None:
    """Derive the counts and guarantees of every cell, and compare them with verdict.json."""
    manifest = parsed((results / "manifest.json").read_bytes(), "manifest.json")
    verdict = parsed((results / "verdict.json").read_bytes(), "verdict.json")
    cells = {(one["run"], one["cell"]): one for one in verdict["cells"]}
    counted: list[Mapping[str, int] | None] = []
    for planned in manifest["runs"]:
        run = load(results, planned)
        for cell in planned["cells"]:
            sealed = cells.pop((planned["number"], cell["cell"]["name"]), None)
            if sealed is None:
                report.disagreed.append(f"{cell['cell']['name']} has no verdict")
            else:
                counted.append(compare(run, cell, sealed, report))
    report.disagreed += [f"{name} of run {number} was not planned" for number, name in cells]
    judged = [one for one in counted if one is not None]
    for what in IN_ALL if len(judged) == len(counted) else ():
        total, told = sum(one[what] for one in judged), verdict["anomalies"].get(what)
        if told is not None and told != total:
            report.disagreed.append(f"{total:,} {what} in all, not {told:,}")
    if verdict["verdict"] == "pass":
        bad = [one["cell"] for one in verdict["cells"] if one["verdict"] == "fail"]
        report.disagreed += [f"the campaign passed, but {name} failed" for name in bad]


# --- the program ----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check results of Ackproof without its code.")
    parser.add_argument("results", metavar="DIR", type=Path)
    parser.add_argument(
        "--key", action="append", default=[], type=Path, help="a public key (PEM, Ed25519)"
    )
    parser.add_argument("--no-signature", action="store_true", help="do not ask for a signature")
    parser.add_argument("--no-seal", action="store_true", help="check results without a seal")
    asked = parser.parse_args(arguments)
    report = Report()
    try:
        if not asked.no_seal:
            keys = [path.read_bytes() for path in asked.key]
            check_seal(asked.results, keys, report, unsigned=asked.no_signature)
        recheck(asked.results, report)
    except (OSError, Unreadable, duckdb.Error, KeyError, TypeError, ValueError) as error:
        sys.stderr.write(f"cannot be checked: {error}\n")
        return 2
    for kind, sentences in (
        ("not judged", report.left_out),
        ("agrees", report.agreed),
        ("DISAGREES", report.disagreed),
    ):
        for sentence in sentences:
            sys.stdout.write(f"{kind}: {sentence}\n")
    return 1 if report.disagreed else 0


if __name__ == "__main__":
    sys.exit(main())
