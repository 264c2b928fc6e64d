#!/bin/sh
# Prints the Python to use: the distribution's where it is 3.11 or newer and can make virtual
# environments, else python3 as it is found. Distributions compile theirs with profiles and across
# modules; pyenv and the like do not unless they are told to, and single records then cost a broker
# a third more.
suits() {
    command -v "$1" >/dev/null &&
        "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if [ -z "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ] && suits /usr/bin/python3; then
    echo /usr/bin/python3
else
    echo python3
fi
