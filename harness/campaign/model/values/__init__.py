"""How a campaign file writes values: lengths of time, amounts, one or several, a choice of
cells."""
