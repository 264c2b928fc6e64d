"""The disk as logs use it: files, work that waits for a sync, and small files beside the logs."""
