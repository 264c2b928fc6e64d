"""Cases that every backend must pass, and what starts them."""
