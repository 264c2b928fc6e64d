"""The programs on hosts besides the agent, shipped as a part of one zip file."""
