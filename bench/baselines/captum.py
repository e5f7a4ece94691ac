"""Captum's TracInCP."""

import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from bench.attribution.problems import Problem


def tracin(problem: Problem, model: nn.Module) -> np.ndarray:
    """Of the last weights alone: the fall of the query's loss, [n, m]."""
    from captum.influence import TracInCP

    if model(problem.train["x"][:1]).shape[1] == 1:
        model = nn.Sequential(model, nn.ZeroPad1d((1, 0)))
    data = TensorDataset(problem.train["x"], problem.train["labels"])
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(model.state_dict(), file.name)

        def load(net, path):
            net.load_state_dict(torch.load(path, weights_only=True))
            return 1.0

        result = TracInCP(
            model, data, [file.name], load, loss_fn=nn.CrossEntropyLoss(reduction="none"),
            batch_size=len(data), sample_wise_grads_per_batch=False,
        )  # fmt: skip
        return result.influence((problem.queries["x"], problem.queries["labels"])).T.numpy()
