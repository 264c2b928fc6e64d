"""What followers make of what their leaders tell them, and leaders of what followers have."""
