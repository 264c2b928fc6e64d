"""Counterfactual root causes: what would have prevented a failure of a campaign."""
