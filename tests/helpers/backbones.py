"""Frozen encoders of a few weights, and samples for them."""

import zlib

import numpy as np
import torch
from PIL import Image
from torch import nn

from datassay.models.backbones.encoder import Embedded, Encoder, image_embedded, masked_mean
from datassay.models.backbones.pixels import PixelPreparation

WIDTH, LIMIT = 6, 5


def image_encoder(seen=None, fails_after=None):
    """A random convolution; `seen` collects how many images each batch had."""
    torch.manual_seed(0)
    network = nn.Conv2d(3, WIDTH, 5, stride=3).eval()
    seen = [] if seen is None else seen

    def embed(prepared, device):
        if fails_after is not None and sum(seen) >= fails_after:
            raise KeyboardInterrupt
        seen.append(len(prepared))
        return image_embedded(network(torch.stack(prepared).to(device)).mean((2, 3)))

    prepare = PixelPreparation(16, mean=0.5, deviation=0.5)
    return Encoder("tiny", "image", "a tiny network", network, WIDTH, prepare, embed, digest="ab")


def text_encoder():
    """The mean of a random vector a word; the first five words count."""
    torch.manual_seed(0)
    network = nn.Embedding(50, WIDTH).eval()

    def embed(texts, device):
        words = [[zlib.crc32(w.encode()) % 50 for w in text.split()] for text in texts]
        longest = max(len(w) for w in words)
        ids = torch.tensor([w + [0] * (longest - len(w)) for w in words])[:, :LIMIT]
        mask = torch.tensor([[1] * len(w) + [0] * (longest - len(w)) for w in words])[:, :LIMIT]
        cut = np.array([len(w) > LIMIT for w in words])
        return Embedded(masked_mean(network(ids), mask), cut)

    return Encoder("words", "text", "tiny", network, WIDTH, str, embed, limit=LIMIT, digest="cd")


def photographs(root, n=6, sizes=((40, 36),), mode="RGB"):
    """A folder of two classes: noise around red and around blue."""
    rng = np.random.default_rng(0)
    for c, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for i in range(n):
            width, height = sizes[i % len(sizes)]
            pixels = rng.integers(0, 128, (height, width, 3), dtype=np.uint8)
            pixels[..., 2 * c] += 100
            Image.fromarray(pixels).convert(mode).save(root / name / f"{i}.png")
    return root
