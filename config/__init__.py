"""Files that users write: YAML read strictly, problems reported with their place and a suggestion.

Campaigns and inventories are read here. The room knows nothing of either.
"""
