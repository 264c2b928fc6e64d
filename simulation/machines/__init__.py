"""The machines that brokers run on: processes that end and begin, and disks that lose what was not
synced."""
