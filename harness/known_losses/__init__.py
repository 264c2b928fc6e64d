"""What released versions of Apache Kafka are known to lose, found by the harness or not.

A story (``campaigns/known-losses/stories.yaml``) is a loss that somebody has told: which releases
have it, which have mended it, and the campaign that shows it. Each is run so many times on each of
them, and of what came of it a page is made (``docs/known-losses.md``). Nothing stands there that
was not run: what is missing is ``not run``, and what told nothing is counted as that.
"""
