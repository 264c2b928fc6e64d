"""``ackproof seal``: results that others can check."""

from pathlib import Path

import click

from ackproof.harness import directory as places
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus


@click.command(
    epilog="""\b
Examples:
  ackproof seal results/latest
  openssl genpkey -algorithm ed25519 -out key.pem
  ackproof seal results/latest --key key.pem
  openssl pkey -in key.pem -pubout -out public.pem
  python verify/recheck.py results/latest --key public.pem
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key that signs the seal (Ed25519, PEM, without a password).",
)
def seal(directory: Path, key: Path | None) -> None:
    """Write DIR/seal.json: the SHA-256 of every file of checked results, and the verdict.

    It is an in-toto statement in a DSSE envelope. The program verify/recheck.py of the sources
    checks it, and judges the history again without Ackproof's code.
    """
    # The library for keys takes long to import.
    from ackproof.harness import sealing
    from ackproof.harness.report.verdict import FILE as VERDICT

    with reported_errors():
        results = places.existing(directory)
        if not isinstance(results, Path):
            fail(f"{results} is remote: seal a copy on this machine", ExitStatus.USAGE)
        if not (results / VERDICT).is_file():
            fail(f"{results} has no {VERDICT}: ackproof check {results}", ExitStatus.USAGE)
        try:
            signer = None if key is None else sealing.read_key(key)
        except (sealing.BadKey, OSError) as problem:
            fail(f"--key: {problem}", ExitStatus.USAGE)
        click.echo(sealing.seal(results, signer))
