"""Faults on what brokers keep: their disks, and the files of their logs."""
