"""How it is proven that a fault bit, and that it is healed: looks, and what other faults account
for. What is seen of one family's doings alone is in that family's room."""
