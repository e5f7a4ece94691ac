"""Names of the networks that come with datassay; nothing heavy is imported here."""

from datassay.errors import ModelError

KNOWN = ("linear", "logistic", "mlp", "cnn", "lenet5")


def check_known(name: str) -> None:
    """Refuse a word that names no network, and nothing that could be a user's."""
    if ":" not in name and name not in {*KNOWN, "auto"}:
        raise ModelError(
            f"model must be one of {', '.join(KNOWN)}, auto, features:NAME, or "
            f"package.module:factory; got {name!r}."
        )
