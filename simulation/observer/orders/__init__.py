"""What becomes of what administrators order, whoever is in the way."""
