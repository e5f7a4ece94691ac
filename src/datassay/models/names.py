"""Names of networks: what "auto" stands for, and the head on a frozen encoder's embeddings."""

from __future__ import annotations

from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.networks import NETWORKS

AUTO, FEATURES = "auto", "features:"
# On embeddings and on everything else; and where each block is solved exactly.
HEAD, BLOCK_HEAD = "mlp", "logistic"


def asked_encoder(name: str) -> str:
    """Which encoder a network's name asks for: "lite0" of "features:lite0+linear"; empty: none."""
    return name if name == AUTO else _parts(name)[0]


def full_name(name: str, train: SampleSet, head: str = HEAD) -> str:
    """A network's name with nothing left to guess; `head` where the name leaves it open."""
    # "features:lite0+mlp" of "features:lite0", and of "auto" on its embeddings; "mlp" of "auto" on
    # anything else; other names as they are.
    encoder, named = _parts(name)
    if name == AUTO:
        encoder = "" if train.encoding is None else train.encoding.name
        return f"{FEATURES}{encoder}+{head}" if encoder else head
    return f"{FEATURES}{encoder}+{named or head}" if encoder else name


def network_on(name: str, train: SampleSet) -> str:
    """The network to build on x: what stands behind the encoder, or the name as it is."""
    encoder, head = _parts(name)
    if not name.startswith(FEATURES):
        return name
    there = "" if train.encoding is None else train.encoding.name
    if encoder != there:
        held = f"embeddings by {there}" if there else "no embeddings"
        raise ModelError(
            f"model {name!r} works on embeddings by {encoder}; x holds {held}. Load the samples "
            f"with encode=Backbone({encoder!r}), or call Backbone({encoder!r})(train, val)."
        )
    return head


def _parts(name: str) -> tuple[str, str]:
    """(encoder, head) of features:ENCODER+HEAD; the head may be empty, both are of other names."""
    if not name.startswith(FEATURES):
        return "", ""
    encoder, plus, head = name.removeprefix(FEATURES).rpartition("+")
    if plus and head.split(":")[0] in NETWORKS:
        return encoder, head
    return name.removeprefix(FEATURES), ""
