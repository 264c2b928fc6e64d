"""Plans: all decisions that are made before the first step, as data, and how a seed draws them."""
