"""The environment of the templates beside this module."""

import jinja2


def templates() -> jinja2.Environment:
    """Return the environment of the templates. It escapes all values, and a missing value is an
    error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ackproof.harness.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
