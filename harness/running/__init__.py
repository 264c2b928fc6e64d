"""The execution of a campaign: its runs, their steps, and the records and displays of both."""
