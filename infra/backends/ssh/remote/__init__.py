"""What runs on hosts besides the agent. It is shipped as a part of one zip file."""
