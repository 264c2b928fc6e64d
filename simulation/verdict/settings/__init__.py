"""What topics and brokers are set to, asked for on purpose when all is over."""
