"""Second implementations and models that results are compared with."""
