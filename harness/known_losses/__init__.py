"""Losses that released versions of Apache Kafka are known for, and whether the harness finds them.

A story (``campaigns/known-losses/stories.yaml``) is a reported loss: the releases that have it, the
releases that have fixed it, and the campaign that shows it. It is run several times on each of
them, and a page is made of the results (``docs/known-losses.md``). The page has only results of
runs. A missing run is ``not run``, and an inconclusive one is counted as such.
"""
