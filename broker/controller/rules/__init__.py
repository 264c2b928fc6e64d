"""What the controller decides by: pure functions of what it knows and of what is wanted.

Nothing here changes anything, and nothing is remembered: asked twice, each says the same.
"""
