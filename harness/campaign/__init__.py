"""The campaign file: what it says, what is wrong with it, and what it comes to."""
