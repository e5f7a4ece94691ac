"""A layer that treats the elements of a set alike: permuting its input permutes its output."""

import math

import torch
from torch import Tensor, nn

from datassay.errors import ModelError


class PermutationEquivariant(nn.Module):
    """x ↦ Λ x_m + Γ Σ_j x_j for each element m of a set: Θ = λI + γ11ᵀ, a matrix per channel pair.

    With one input and one output channel Λ and Γ are the numbers λ and γ. No other linear layer
    commutes with every permutation of the elements. The layer serves sets of any size M.

    Attributes:
        own: Λ, [out_channels, in_channels], of the element itself.
        shared: Γ, [out_channels, in_channels], of the sum over all elements.

    Cost: 2 in_channels · out_channels multiplications an element.
    Source: S2 class 4, "Permutation equivariant layer"; Zaheer et al. (2017), Lemma 3 and eq. 4.
    Deviates nowhere; there is no bias and no activation: they follow elementwise.
    """

    def __init__(self, in_channels: int = 1, out_channels: int = 1):
        """Draw uniform initial weights of variance 1 / (3 in_channels), Γ smaller; M may be any.

        Args:
            in_channels: c of the inputs; 1 also takes inputs without a channel axis.
            out_channels: of the outputs.

        Raises:
            ModelError: a number of channels is below 1.
        """
        super().__init__()
        if min(in_channels, out_channels) < 1:
            raise ModelError(
                f"in_channels and out_channels must be at least 1; got {in_channels} and "
                f"{out_channels}."
            )
        bound = 1 / math.sqrt(in_channels)
        own_matrix = torch.empty(out_channels, in_channels)
        self.own = nn.Parameter(nn.init.uniform_(own_matrix, -bound, bound))
        # The sum over a set is larger than its elements.
        shared_matrix = torch.empty(out_channels, in_channels)
        self.shared = nn.Parameter(nn.init.uniform_(shared_matrix, -bound / 10, bound / 10))

    def forward(self, x: Tensor) -> Tensor:
        """Map [n, M] → [n, M] with one channel, or [n, M, in_channels] → [n, M, out_channels].

        Args:
            x: n sets of M elements.

        Returns:
            As many sets of as many elements.

        Raises:
            ModelError: x has another number of axes or of channels.
        """
        has_no_channel_axis = x.ndim == 2 and self.own.numel() == 1
        if not has_no_channel_axis and (x.ndim != 3 or x.shape[2] != self.own.shape[1]):
            raise ModelError(
                f"inputs must be [n, M, {self.own.shape[1]}] (or [n, M] with one channel in and "
                f"out); got {list(x.shape)}."
            )
        elements = x
        if has_no_channel_axis:
            elements = x[..., None]
        set_sum = elements.sum(dim=1, keepdim=True)
        values = elements @ self.own.T + set_sum @ self.shared.T
        if has_no_channel_axis:
            return values[..., 0]
        return values
