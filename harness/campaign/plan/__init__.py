"""The plan of a campaign: its runs, and the time and target of each fault. All of it is a pure
function of the resolved campaign.
"""
