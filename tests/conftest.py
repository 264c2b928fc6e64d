"""Property tests repeat exactly: their examples come from the test, not from chance.

``HYPOTHESIS_PROFILE=random`` looks for new ones; what it finds it prints, to be replayed.
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
