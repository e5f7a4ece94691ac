"""dattri: per-sample gradients and its projections for CPUs."""

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset


def features(net: nn.Module, x: torch.Tensor, p: int, folder: str) -> dict[str, Callable[[], int]]:
    """Turns: p features of a batch's gradients of the first output → samples done.

    By coordinates, and by LoGra's factored projections of dense layers.
    """
    from dattri.algorithm.logra import LoGraAttributor
    from dattri.func.projection import random_project
    from dattri.task import AttributionTask

    def first_output(weights, sample):
        return functional_call(net, weights, sample[None])[0, 0]

    task = AttributionTask(first_output, net, net.state_dict())
    gradient = task.get_grad_target_func(in_dims=(None, 0))
    weights, _ = task.get_param(ckpt_idx=0)
    to = random_project(gradient(weights, x), len(x), p, 32, 0, "random_mask", device="cpu")

    def masked() -> int:
        return len(to(gradient(weights, x), ensemble_id=0))

    def summed(model, batch, device):
        return model(batch[0])[:, 0].sum()

    # A square number a layer, so that the layers together have at most p.
    names = [n for n, m in net.named_modules() if isinstance(m, nn.Linear)]
    each = int((p / len(names)) ** 0.5) ** 2
    loader = DataLoader(TensorDataset(x.repeat(8, *[1] * (x.ndim - 1))), batch_size=256)

    def logra() -> int:
        result = LoGraAttributor(
            AttributionTask(summed, net, net.state_dict()), names, hessian="Identity",
            proj_dim=each, offload="none", cache_dir=folder,
        )  # fmt: skip
        result.cache(loader)
        return 8 * len(x)

    return {"dattri coordinates scalar": masked, "dattri logra, dense layers only, scalar": logra}
