"""What kio's classes have as a field's metadata, for classes that are made like them."""

INT8 = {"kafka_type": "int8"}
INT16 = {"kafka_type": "int16"}
INT32 = {"kafka_type": "int32"}
INT64 = {"kafka_type": "int64"}
BOOL = {"kafka_type": "bool"}
STRING = {"kafka_type": "string"}
BYTES = {"kafka_type": "bytes"}
UUID = {"kafka_type": "uuid"}
ERROR_CODE = {"kafka_type": "error_code"}
