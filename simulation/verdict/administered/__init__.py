"""What administrators ask for when all is over: what cannot be, and what comes of what can."""
