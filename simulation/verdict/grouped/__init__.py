"""What members of groups and those who administer these may count on, asked for on purpose."""
