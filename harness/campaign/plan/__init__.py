"""What a campaign comes to: its runs, and when what strikes whom in each. Pure functions of the
resolved campaign."""
