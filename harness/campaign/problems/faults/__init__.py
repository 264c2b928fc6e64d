"""What is wrong with what a campaign breaks: each fault, their times, stories, orders on topics."""
