"""Names of the networks that come with datassay; nothing heavy is imported here."""

from datassay.errors import ModelError

KNOWN = ("linear", "logistic", "mlp", "cnn", "lenet5")


def check_known(name: str) -> None:
    """Raise ModelError for a word that names no built-in network and is no user's reference."""
    if ":" not in name and name not in {*KNOWN, "auto"}:
        raise ModelError(
            f"model must be one of {', '.join(KNOWN)}, auto, features:NAME, or "
            f"package.module:factory; got {name!r}."
        )
