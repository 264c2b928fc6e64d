"""What is said of campaign files in general: the JSON Schema, the reference, and a file to start
from."""
