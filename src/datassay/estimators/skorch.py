"""skorch nets that weight their samples; nothing here imports skorch."""

from typing import Any

import numpy as np

from datassay.errors import SettingError


class SampleWeightMixin:
    """Gives a skorch net's fit a sample_weight, which skorch's own loss ignores.

    The weights travel with the samples, {"X": X, "sample_weight": w}, so that batches and skorch's
    validation split keep them together; the module itself never sees them. Put it before the net
    and let the criterion keep each sample's loss:

        class Net(SampleWeightMixin, NeuralNetClassifier): ...
        net = Net(module, criterion=nn.CrossEntropyLoss, criterion__reduction="none")

    A batch costs (1/b) Σ_i w_i ℓ_i; weights of mean 1, as `LocalVarianceClassifier` gives them,
    leave the learning rate its meaning.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Any:
        """Fit the net, each sample's loss times its weight.

        Args:
            X: inputs, [n, ...].
            y: labels or targets.
            sample_weight: [n]; None is 1 each.
            fit_params: passed on to the net.

        Returns:
            The net.
        """
        if sample_weight is None:
            weight = np.ones(len(X))
        else:
            weight = np.asarray(sample_weight)
        weighted_inputs = {"X": X, "sample_weight": weight.astype(np.float32)}
        return super().fit(weighted_inputs, y, **fit_params)  # pyrefly: ignore[missing-attribute] (of the net)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's outputs.

        Args:
            x: a batch, with its weights while fitting.
            fit_params: passed on to the module.

        Returns:
            As the net's own.
        """
        if isinstance(x, dict) and "sample_weight" in x:
            inputs = x["X"]
        else:
            inputs = x
        return super().infer(inputs, **fit_params)  # pyrefly: ignore[missing-attribute] (of the net)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, **kwargs: Any) -> Any:
        """Return the mean of weight times loss over a batch.

        Args:
            y_pred: outputs.
            y_true: labels or targets.
            X: the batch, with its weights.
            kwargs: passed on to the net.

        Returns:
            A number with its gradient.

        Raises:
            SettingError: the criterion gives one number per batch.
        """
        losses = super().get_loss(y_pred, y_true, X=X, **kwargs)  # pyrefly: ignore[missing-attribute] (of the net)
        if losses.ndim == 0:
            raise SettingError(
                'criterion__reduction must be "none" so that each sample\'s loss can be weighted; '
                "the criterion gives one number per batch."
            )
        losses = losses.reshape(len(losses), -1).mean(1)
        if not (isinstance(X, dict) and "sample_weight" in X):
            return losses.mean()
        return (losses * X["sample_weight"].to(losses)).mean()
