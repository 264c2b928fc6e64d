"""All problems that a campaign file may have, beside wrong types and unknown keys.

The problems of one item are found in the file as it is written. Contradictions between sections are
judged for the valid sections only (``draft.py``). :mod:`harness.campaign.validation` calls all of
these modules.
"""
