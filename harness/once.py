"""A campaign that is run once on a system with a seed, and never again while its results are there.

What takes hours is made of these: it may be ended at any time, and goes on with what is not there.
Results without a verdict are of one that was killed; they count for nothing, and are removed.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ackproof.harness.children import Children
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Attributes:
    file: The campaign's.
    directory: Of its results.
    metadata_quorum: Who keeps the metadata, where it is not the system's default.
    """

    file: Path
    system: str
    seed: int
    directory: Path
    metadata_quorum: str | None = None

    @property
    def output(self) -> Path:
        """What the campaign says while it runs."""
        return self.directory.with_name(f"{self.directory.name}.output")

    @property
    def result(self) -> VerdictDocument | None:
        """What came of it; None where it was not run to its end. Raises DamagedResults."""
        try:
            return verdict.read_document(self.directory / verdict.FILE)
        except FileNotFoundError:
            return None

    def carry_out(self, children: Children) -> bool:
        """Run it where it was not; whether there is a verdict. What was ended halfway is removed.

        Raises Interrupted when we are asked to stop, DamagedResults.
        """
        if self.result is not None:
            return True
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        where = ["--system", self.system, "--seed", str(self.seed), "--out", str(self.directory)]
        if self.metadata_quorum is not None:
            where += ["--metadata-quorum", self.metadata_quorum]
        with self.output.open("wb") as said:
            children.campaign([str(self.file), *where], said)
        if children.asked_to_stop:  # checked and reported all the same, of half of it
            shutil.rmtree(self.directory, ignore_errors=True)
        children.check()
        return self.result is not None
