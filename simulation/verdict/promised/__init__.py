"""What clients and administrators may count on, asked for on purpose when all is over."""
