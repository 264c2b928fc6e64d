"""The rules: each a pure function from one partition's history to its anomalies.

Rows have the shape of ``checkers.verdict.ANOMALIES`` without the run. Rules state facts, whether
or not anything was promised; ``checkers.judging.guarantees`` turns facts into verdicts. What a rule
cannot know from a partial history it leaves out, never guesses.
"""
