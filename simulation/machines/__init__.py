"""The machines of brokers: processes that end and start, and disks that lose unsynced data."""
