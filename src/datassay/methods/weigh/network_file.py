"""A trained network in a file of weights that also says how it is built and what its rows are."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import nn

from datassay.collect.jacobian.inputs import network_inputs
from datassay.data.new_rows import RowFormat
from datassay.errors import ModelError
from datassay.models.build import build_model
from datassay.models.reference import is_reference
from datassay.models.weights import load_state
from datassay.optional import coalesce
from datassay.results import result
from datassay.store.model_file import write_model

FORMAT = "datassay network 1"
CHUNK = 1024


@result
class FittedNetwork:
    """A network that `build_model` names, with its weights.

    Attributes:
        name: of the network.
        network: trained.
        rows: what new rows must be.
    """

    name: str
    network: nn.Module
    rows: RowFormat

    def outputs(self, x: Shaped[np.ndarray, "m ..."]) -> Float[np.ndarray, "m k"]:
        """Predict probabilities of classes, or targets.

        Args:
            x: [m, ...] as loaded.

        Returns:
            [m, k], computed in float64, whatever the network's precision.
        """
        network = copy.deepcopy(self.network).double().eval()
        inputs = [x[i : i + CHUNK] for i in range(0, len(x), CHUNK)]
        with torch.no_grad():
            chunks = [network(network_inputs(p, network, torch.float64)) for p in inputs]
        outputs = torch.cat(chunks)
        if not self.rows.example.is_classification:
            return outputs.numpy()
        if outputs.shape[1] == 1:  # the logit of the second of two classes
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
        return outputs.softmax(1).numpy()

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, which `--weights` reads too.

        Args:
            path: of the file.
        """
        state = {n: t.detach().cpu().numpy() for n, t in self.network.state_dict().items()}
        write_model(path, FORMAT, state, {"model": self.name, "rows": self.rows.to_json()})


def fitted_network_of(
    file_format: str,
    arrays: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    model: str | nn.Module | None = None,
) -> FittedNetwork:
    """Build a network from a file's parts; raise ValueError where they are inconsistent."""
    if file_format != FORMAT:
        raise ValueError("it holds something else.")
    rows = RowFormat.from_json(facts["rows"])
    name = str(facts["model"])
    if model is None and is_reference(name):  # a file must not say which code runs
        raise ModelError(
            f"model must be given, since the file is of a network of the user's own code, {name}; "
            f"nothing runs because a file names it. Give model={name!r} if that is yours."
        )
    if isinstance(model, nn.Module):
        network = copy.deepcopy(model)
    else:
        network = build_model(coalesce(model, name), rows.example)
    tensors = {key: torch.from_numpy(values) for key, values in arrays.items()}
    load_state(network, tensors, "the file")
    return FittedNetwork(name, network, rows)
