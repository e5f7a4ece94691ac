"""Our effects as captum's data influence; captum must be installed."""

from importlib import import_module
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from datassay.errors import SettingError, install
from datassay.score import index
from datassay_exports.effects import effects_on_queries, self_influences

try:
    DataInfluence: Any = import_module("captum.influence").DataInfluence
    Results: Any = import_module("captum.influence._utils.common").KMostInfluentialResults
except ImportError:  # making one says what is missing
    DataInfluence = object


class Influence(DataInfluence):
    """Effects by `index`, whose curvature is fitted once, as captum's `TracInCP` answers.

    Args:
        model: a classifier, logits of a batch, with trained weights.
        train_dataset: n pairs of an input and its class.
        measure: of the queries, as in `influence`.
        settings: further ones of `index`, such as curvature and damping.

    Raises:
        SettingError: captum is not installed.
    """

    def __init__(
        self, model: nn.Module, train_dataset: Any, measure: str = "loss", **settings: Any
    ):
        if DataInfluence is object:
            raise SettingError(f"captum's data influence needs it: {install('captum')}.")
        self.model, self.train_dataset, self.measure = model, train_dataset, measure
        self.index = index(model, train_dataset, **settings)

    def influence(
        self, inputs: tuple[Any, Any], k: int | None = None, proponents: bool = True
    ) -> Any:
        """Return scores of m queries; positive: the training sample lowers the query's loss.

        Returns:
            [m, n], or with k captum's pair of indices and scores, [m, k], highest first (of
            opponents lowest first).
        """
        scores = effects_on_queries(self.index, *inputs, self.measure)
        if k is None:
            return scores
        top = scores.topk(min(k, scores.shape[1]), largest=proponents)
        return Results(top.indices, top.values)

    def self_influence(self) -> Float[Tensor, " n"]:
        """Return how much each sample lowers its own loss, times n; high: suspect."""
        return self_influences(self.index)
