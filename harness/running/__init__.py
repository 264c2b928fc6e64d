"""Carrying out a campaign: its runs, their steps, what is recorded and shown meanwhile."""
