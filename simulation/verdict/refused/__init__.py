"""What brokers must refuse, said on purpose when all is over."""
