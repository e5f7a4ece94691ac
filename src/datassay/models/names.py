"""Names of networks: what "auto" stands for, and the head on a frozen encoder's embeddings."""

from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.networks import NETWORKS

AUTO, FEATURES = "auto", "features:"
HEAD = "mlp"  # the network on embeddings, and "auto" on everything else
BLOCK_HEAD = "logistic"  # the head of a partition's block, which is solved exactly


def asked_encoder(name: str) -> str:
    """Return the encoder that a network's name asks for: "lite0" for "features:lite0+linear"."""
    if name == AUTO:
        return name
    encoder, _ = _split_name(name)
    return encoder


def full_name(name: str, train: SampleSet, head: str = HEAD) -> str:
    """Return the network's name with encoder and last layers; `head` if it names none."""
    # "features:lite0" becomes "features:lite0+mlp", and so does "auto" on its embeddings; "auto" on
    # anything else becomes "mlp"; other names stay.
    encoder, named_head = _split_name(name)
    if name == AUTO:
        encoder = ""
        if train.encoding is not None:
            encoder = train.encoding.name
        if encoder:
            return f"{FEATURES}{encoder}+{head}"
        return head
    if encoder:
        return f"{FEATURES}{encoder}+{named_head or head}"
    return name


def network_on(name: str, train: SampleSet) -> str:
    """Return the part of the name after the encoder; raise if x lacks its embeddings."""
    encoder, head = _split_name(name)
    if not name.startswith(FEATURES):
        return name
    actual = ""
    if train.encoding is not None:
        actual = train.encoding.name
    if encoder != actual:
        content = "no embeddings"
        if actual:
            content = f"embeddings by {actual}"
        raise ModelError(
            f"model {name!r} works on embeddings by {encoder}; x holds {content}. Load the samples "
            f"with encode=Backbone({encoder!r}), or call Backbone({encoder!r})(train, val)."
        )
    return head


def _split_name(name: str) -> tuple[str, str]:
    """Return (encoder, head) of "features:ENCODER+HEAD"; ("", "") of another name."""
    if not name.startswith(FEATURES):
        return "", ""
    encoder, plus, head = name.removeprefix(FEATURES).rpartition("+")
    if plus and head.split(":")[0] in NETWORKS:
        return encoder, head
    return name.removeprefix(FEATURES), ""
