"""Everything that may be wrong with a campaign file, beside types and keys.

What is wrong with a thing by itself is read as it is written; what sections say of each other is
judged of those that are right (``draft.py``). :mod:`harness.campaign.validation` asks them all.
"""
