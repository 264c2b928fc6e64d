"""Debian hosts with an sshd on this machine."""
