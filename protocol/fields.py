"""The field metadata of kio's classes, for classes in the same form."""

INT8 = {"kafka_type": "int8"}
INT16 = {"kafka_type": "int16"}
INT32 = {"kafka_type": "int32"}
INT64 = {"kafka_type": "int64"}
BOOL = {"kafka_type": "bool"}
STRING = {"kafka_type": "string"}
BYTES = {"kafka_type": "bytes"}
UUID = {"kafka_type": "uuid"}
ERROR_CODE = {"kafka_type": "error_code"}
