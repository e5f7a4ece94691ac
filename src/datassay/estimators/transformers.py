"""A transformers Trainer that weights its samples; nothing here imports transformers."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from datassay.errors import DataError, SettingError

WEIGHT_COLUMN = "sample_weight"


class SampleWeightTrainerMixin:
    """Gives a `transformers.Trainer` a weight for each sample, read from a column sample_weight.

    Put it before the Trainer and let the column through:

        class WeightedTrainer(SampleWeightTrainerMixin, Trainer): ...
        WeightedTrainer(model, TrainingArguments(..., remove_unused_columns=False), ...)

    A batch costs (1/b) Σ_i w_i ℓ_i; ℓ is cross-entropy for whole-number labels and squared error
    (the mean over outputs) for others, as the models have it, so that weights of 1 change nothing.
    Give weights of mean 1 (`len(w) * w` for weights that sum to 1): others change the step size of
    plain descent and what gradient clipping clips. Label smoothing and gradient accumulation work
    as without weights. Batches without the column are weighted by 1 in evaluation.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._check_arguments()
        # The model sees no labels and its loss is not used: what we return is a batch's mean, which
        # the Trainer is to divide by its accumulation steps.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the mean of weight times loss over a batch.

        Args:
            model: called with the inputs but for labels and weights; returns `.logits`, [b, k].
            inputs: a batch.
            return_outputs: whether the model's outputs are wanted too.
            num_items_in_batch: not used.

        Returns:
            The loss, or the loss and the outputs.

        Raises:
            DataError: labels are missing, or weights are while training, or they do not fit the
                outputs.
        """
        inputs = dict(inputs)
        labels = inputs.pop("labels", None)
        weight = inputs.pop(WEIGHT_COLUMN, None)
        if labels is None or (weight is None and model.training):
            missing = WEIGHT_COLUMN
            if labels is None:
                missing = "labels"
            raise DataError(
                f"every batch must hold {missing}; got {', '.join(inputs)}. Add the column."
            )
        outputs = model(**inputs)
        losses = self._losses(outputs.logits, labels)
        if weight is None:
            weight = torch.ones_like(losses)
        else:
            weight = weight.to(losses)
        if weight.shape != losses.shape:
            raise DataError(
                f"{WEIGHT_COLUMN} must hold one number per sample, {len(losses)}; got "
                f"{list(weight.shape)}."
            )
        mean = (weight * losses).mean()
        if return_outputs:
            return (mean, outputs)
        return mean

    def _losses(self, logits: Tensor, labels: Tensor) -> Float[Tensor, " b"]:
        """Return each sample's loss, [b]: cross-entropy of class labels, else squared error."""
        if not labels.is_floating_point():
            smoothing = self.args.label_smoothing_factor  # pyrefly: ignore[missing-attribute] (of the Trainer)
            return functional.cross_entropy(
                logits, labels, reduction="none", label_smoothing=smoothing
            )
        if labels.numel() != logits.numel():
            raise DataError(
                "labels must be whole numbers for classes, or one number per output; got "
                f"{labels.dtype} of shape {list(labels.shape)} for outputs of shape "
                f"{list(logits.shape)}."
            )
        square = functional.mse_loss(logits, labels.reshape(logits.shape), reduction="none")
        return square.flatten(1).mean(1)

    def _check_arguments(self) -> None:
        """Raise if the Trainer's arguments would drop the sample weights."""
        if self.args.remove_unused_columns:  # pyrefly: ignore[missing-attribute] (of the Trainer)
            raise SettingError(
                f"remove_unused_columns must be False so that {WEIGHT_COLUMN} reaches the loss; "
                "got True. Set it in TrainingArguments."
            )
        if getattr(self, "compute_loss_func", None) is not None:
            raise SettingError(
                "compute_loss_func must be None, since it gives one number per batch; got one. "
                "Override _losses instead."
            )
