"""Development tools, which are in the sources and not in the wheel."""
