"""The cluster's observed timeline: leaders, leader epochs and ISRs, by two witnesses.

ZooKeeper tells them to the observer (``checkers.cluster.observed``), and brokers their own
state-change logs (:mod:`checkers.timeline.words`). What follows from these alone, and what they say
of acks, is worked out for each partition (:mod:`checkers.timeline.derived`) and given to the rules.
"""
