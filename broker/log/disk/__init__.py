"""The disk as logs use it: files, what waits for a sync, and the small files beside the logs."""
