"""What an observer gets to see of brokers, by what does it: their steps are wrapped."""
