"""What the parts of ``verdict.json`` have in common (``harness.report.document``)."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )
