"""The campaign file as a model: what it says, section by section, each right by itself."""
