"""Pictures of the replicas' logs around a cause, as text for a terminal and as SVG for the
report."""
