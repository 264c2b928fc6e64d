"""What a campaign's clients will be like: their properties, asked of the workloads' room before
anything is started."""
