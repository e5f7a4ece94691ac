"""Our effects as an explainer of quanda, whose metrics judge attributions; it must be installed."""

from importlib import import_module
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from datassay.errors import SettingError, install
from datassay.score import index
from datassay_exports.effects import effects_on_queries, self_influences

try:
    Explainer: Any = import_module("quanda.explainers.base").Explainer
except ImportError:  # making one says what is missing
    Explainer = object


class Influence(Explainer):
    """Effects by `index`: its curvature is fitted once, in evaluation mode, at the last checkpoint.

    `explain` gives [m, n], what each of n training samples adds to the margin of the target;
    `measure="loss"` what it lowers the loss by. `self_influence` gives [n], high: suspect.

    Args:
        model: a classifier, logits of a batch.
        train_dataset: n pairs of an input and its class.
        task: "image_classification", as quanda calls inputs that are one tensor.
        checkpoints: as in other explainers, like checkpoints_load_func; none: the weights it has.
        measure: of the queries, as in `influence`.
        relative: divide each effect by the root of the sample's self-influence (RelatIF, Barshan et
            al. 2020), both at temperature 4: which samples are like the query, whatever their
            loss. Subsets are predicted better without.
        settings: further ones of `index`, such as curvature and damping.
    """

    accepted_tasks = ["image_classification"]  # noqa: RUF012 (as quanda has it)

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Any,
        task: Any = "image_classification",
        checkpoints: Any = None,
        checkpoints_load_func: Any = None,
        measure: str = "margin",
        relative: bool = False,
        **settings: Any,
    ):
        if Explainer is object:
            raise SettingError(f"an explainer of quanda needs it: {install('quanda')}.")
        super().__init__(model, train_dataset, task, checkpoints, checkpoints_load_func)
        if self.checkpoints:
            self.load_last_checkpoint()
        if relative:
            settings = {"temperature": 4.0, **settings}
        self.measure, self.relative = measure, relative
        self.index = index(model, train_dataset, **settings)

    def explain(self, test_data: Tensor, targets: Any) -> Float[Tensor, "m n"]:
        """Return [m, n], effects on the measure of m inputs; positive: the sample raises it."""
        effect = effects_on_queries(self.index, test_data, targets, self.measure)
        scale = self.self_influence().clamp_min(1e-300).sqrt() if self.relative else 1.0
        return effect.to(self.device) / scale

    def self_influence(self, batch_size: int = 32) -> Float[Tensor, " n"]:
        """Return [n], n times how much each sample lowers its own loss; no batch_size."""
        return self_influences(self.index).to(self.device)
