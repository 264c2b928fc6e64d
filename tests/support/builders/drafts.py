"""Campaigns that are made in tests, judged as files are."""

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.problems.draft import Draft


def draft_of(campaign: Campaign) -> Draft:
    """The campaign as a file of which everything is right so far."""
    return Draft(**{name: getattr(campaign, name) for name in Draft.__dataclass_fields__})
