"""The reading back of a cell's topic when all is over."""
