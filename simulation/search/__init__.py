"""The search for a seed that fails, and what is made of it: the smallest plan, and a story."""
