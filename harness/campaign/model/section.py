"""What the sections of a campaign file have in common: every key is known, with Kafka's dots, and
says below itself what it means: docs/campaigns.md and the JSON Schema are made of that."""

from pydantic import BaseModel, ConfigDict


def _dotted(field_name: str) -> str:
    return field_name.replace("_", ".")


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=_dotted,
        use_attribute_docstrings=True,
    )
