"""What kio's entity classes say of their fields, as far as bytes are concerned."""

from dataclasses import Field, dataclass, is_dataclass
from types import NoneType
from typing import Any, get_args

from kio.static.constants import EntityType

INT8 = {"kafka_type": "int8"}
INT16 = {"kafka_type": "int16"}
INT32 = {"kafka_type": "int32"}
INT64 = {"kafka_type": "int64"}
BOOL = {"kafka_type": "bool"}
STRING = {"kafka_type": "string"}
BYTES = {"kafka_type": "bytes"}
UUID = {"kafka_type": "uuid"}
ERROR_CODE = {"kafka_type": "error_code"}
"""What kio's classes, and those of ours that are made like them, have as a field's metadata."""


@dataclass(frozen=True, slots=True)
class FieldKind:
    """How a field is written.

    Attributes:
        kafka_type: of the value, or of an array's elements; "" for entities.
        entity: their class, if they are entities, else None.
        is_compact: lengths are varints (KIP-482).
    """

    kafka_type: str
    entity: Any
    is_array: bool
    is_nullable: bool
    is_compact: bool


def kind_of(entity_type: Any, field: Field[Any]) -> FieldKind:
    """What a field of ``entity_type`` is.

    ``client_id`` is the one string of a flexible entity that has the old form: a server must be
    able to read it before it knows the version.
    """
    options = get_args(field.type) if not _is_array(field.type) else ()
    (value,) = [option for option in options or (field.type,) if option is not NoneType]
    is_array = _is_array(value)
    element = get_args(value)[0] if is_array else value
    in_header = entity_type.__type__ is EntityType.header
    return FieldKind(
        kafka_type=field.metadata.get("kafka_type", ""),
        entity=element if is_dataclass(element) else None,
        is_array=is_array,
        is_nullable=NoneType in options,
        is_compact=entity_type.__flexible__ and not (in_header and field.name == "client_id"),
    )


def _is_array(option: Any) -> bool:
    return getattr(option, "__origin__", None) is tuple
