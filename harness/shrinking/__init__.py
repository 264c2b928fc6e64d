"""The search for the smallest campaign that fails as a given one did."""
