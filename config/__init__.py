"""Files that users write: YAML that is read strictly, with problems reported by place and with a
suggestion.

Campaigns and inventories are read here. This package knows nothing about their contents.
"""
