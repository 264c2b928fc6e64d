"""The campaign file as a model: one module for each section, each of which is validated by
itself."""
