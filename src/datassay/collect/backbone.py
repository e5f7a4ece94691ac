"""A frozen encoder as a way to load samples: which one, and what is said where there is none."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from datassay.collect.jacobian.inputs import check_device
from datassay.collect.settings import Collection, Computing
from datassay.data.arguments import check_kind, checks_arguments
from datassay.data.assemble import plain
from datassay.data.samples import Encoding, SampleSet
from datassay.errors import ModelError, install
from datassay.models.backbones.choice import encoder_named, own_encoder, reads
from datassay.models.names import AUTO
from datassay.progress import Progress, silent
from datassay.store.location import check_place

logger = logging.getLogger(__name__)

PLURAL = {"image": "images", "text": "texts", "neither": "rows of numbers"}
WITHOUT = {
    "image": "pixels alone were used, and a network from random weights sees little in photographs",
    "text": "word counts alone were used, which know no synonyms",
}


@dataclass(frozen=True)
class Backbone:
    """A frozen encoder as the `encode` of `load`; called with two sets it gives both, embedded.

    Attributes:
        name: lite0 (EfficientNet-Lite0, images), minilm (all-MiniLM-L6-v2, texts), timm:NAME,
            hf:NAME; or auto: lite0 for photographs, minilm for texts, where the extra `features`
            is installed; pixels, word weights and columns of numbers otherwise, and a note.
        store: folder or fsspec URL that keeps finished chunks, as for `collect`.
        device: where the encoder runs, "cpu", "cuda" or "cuda:1".
        progress: called with (step, samples done, samples in all).
        only_plan: embed one batch and repeat it for all samples: what `--plan` needs to know.
    """

    name: str = AUTO
    store: str | Path | None = Computing.store
    device: str = Collection.device
    progress: Progress = silent
    only_plan: bool = False

    @checks_arguments
    def __call__(
        self, train: SampleSet, val: SampleSet | None = None
    ) -> tuple[SampleSet, SampleSet | None]:
        """The same samples with embeddings as x, beside the columns of numbers that texts have.

        Args:
            train: with texts or images; x may still be empty.
            val: of the same kind; None where nothing is held out.

        Returns:
            Both sets, float32; `encoding` says what was done, `images` and `texts` stay to be
            shown. The embeddings are the same, to 1e-5, whatever the batches.

        Raises:
            DataError: these are no samples; images cannot be read, or have other values than 0 to 1
                or 0 to 255; or the result would not fit into memory.
            ModelError: a package is not installed, its weights are not those that were published,
                or the encoder reads images and these are texts (or the reverse).
            SettingError: the device or the store cannot be used.

        Cost: one pass over the samples; of lite0 about 0.8 billion operations an
            image, of minilm about 2 billion a text of 100 tokens.
        """
        name, sets = self.name, (train,) if val is None else (train, val)
        check_kind("name", name, str)
        if name == AUTO:
            name, there = own_encoder(*sets)
            if not there:
                first, second = plain(train, val)
                return _noted(first, second) if name else (first, second)
        check_device(self.device)
        if self.store is not None:
            check_place(self.store)
        encoder = encoder_named(name)
        if encoder.reads != (kind := reads(train)):
            raise ModelError(
                f"encoder features:{name} reads {PLURAL[encoder.reads]}; these samples are "
                f"{PLURAL[kind]}. Take another encoder, or another --model."
            )
        from datassay.collect.embedding_pass import EmbeddingPass  # and zarr, only where it embeds

        work = EmbeddingPass(encoder, sets, self.store, torch.device(self.device), self.progress)
        made = work.planned() if self.only_plan else work.sets()
        return made["train"], made.get("val")


def _noted(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """The same sets, which say that no encoder was there."""
    note = f"{WITHOUT[reads(train)]}; for a pretrained encoder run: {install('features')}"
    logger.warning("%s.", note)
    encoding = replace(train.encoding or Encoding(""), note=note)
    noted = None if val is None else replace(val, encoding=encoding)
    return replace(train, encoding=encoding), noted
