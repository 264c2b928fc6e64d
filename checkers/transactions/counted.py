"""What transactions and their cells are counted as."""

TRANSACTIONS = "transactions"
"""Each transaction, by outcome and by whether it is promised."""

LOOKED = "transactions looked at"
"""A cell that all rules could look at in full."""
