"""How pages are made of the templates beside this."""

import jinja2


def templates() -> jinja2.Environment:
    """The templates, escaping what they show; a name that they are not given is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ackproof.harness.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
