"""Brokers, controllers, groups and ZooKeepers that run within the test's process."""
