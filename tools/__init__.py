"""Development tools: in the sources, and not in the wheel."""
