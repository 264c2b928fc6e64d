"""Documents about campaign files in general: the JSON Schema, the reference, and a template."""
