"""A frozen encoder as a way to load samples: its choice, and the notes where none is used."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from datassay.collect.jacobian.inputs import check_device
from datassay.collect.settings import Collection, Computing
from datassay.data.arguments import check_kind, checks_arguments
from datassay.data.assemble import encode_plainly
from datassay.data.pictures import BRIGHTEST, channels_first, have_one_size
from datassay.data.samples import Encoding, SampleSet
from datassay.data.splits import fold_pairs
from datassay.errors import ModelError, install
from datassay.models.backbones.choice import (
    OWN,
    default_encoder,
    encoder_kind,
    encoder_named,
    is_installed,
)
from datassay.models.names import AUTO
from datassay.optional import drop_none
from datassay.progress import Progress, silent
from datassay.store.location import check_place

logger = logging.getLogger(__name__)

PLURAL = {"image": "images", "text": "texts", "neither": "rows of numbers"}
WITHOUT = {
    "image": "pixels alone were used, and a network from random weights sees little in photographs",
    "text": "word counts alone were used, which know no synonyms",
}
REMEDY = f"for a pretrained encoder run: {install('features')}"
SIZES = "images differ in size"
# Whether pixels suffice is decided by cross-validation on some of the images.
MOST_IMAGES = 200
FOLDS = 5
FEWEST_IMAGES = 40
LEAST_SIDE = 16  # pixels
ENOUGH_RIGHT = 0.8  # share of images that pixels must get right
GAIN_NEEDED = 0.1  # in that share, for an encoder


@dataclass(frozen=True)
class Backbone:
    """A frozen encoder as the `encode` of `load`; called with two sets it gives both, embedded.

    Attributes:
        name: lite0 (EfficientNet-Lite0, images), minilm (all-MiniLM-L6-v2, texts), timm:NAME,
            hf:NAME; or auto: lite0 for photographs, minilm for texts, where the extra `features`
            is installed; pixels, word weights and columns of numbers otherwise, and a note. Other
            images are read by lite0, too, where they differ in size, or where pixels predict fewer
            than 80 % of 200 images in five folds and lite0 at least 10 points more.
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
        """Replace x by embeddings, after the columns of numbers that come with texts.

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
        name = self.name
        sets = drop_none(train, val)
        check_kind("name", name, str)
        if name == AUTO:
            name, is_there = default_encoder(*sets)
            if not name and encoder_kind(train) == "image":
                return self._read_images(train, val)
            if not is_there:
                pixels = encode_plainly(train, val)
                if not name:
                    return pixels
                return _annotate(*pixels, f"{WITHOUT[encoder_kind(train)]}; {REMEDY}")
        check_device(self.device)
        if self.store is not None:
            check_place(self.store)
        encoder = encoder_named(name)
        kind = encoder_kind(train)
        if encoder.reads != kind:
            raise ModelError(
                f"encoder features:{name} reads {PLURAL[encoder.reads]}; these samples are "
                f"{PLURAL[kind]}. Take another encoder, or another --model."
            )
        from datassay.collect.embedding_pass import EmbeddingPass  # and zarr, only where it embeds

        work = EmbeddingPass(encoder, sets, self.store, torch.device(self.device), self.progress)
        if self.only_plan:
            embedded = work.plan_sets()
        else:
            embedded = work.sets()
        return embedded["train"], embedded.get("val")

    def _read_images(
        self, train: SampleSet, val: SampleSet | None
    ) -> tuple[SampleSet, SampleSet | None]:
        """Return images as pixels, or pretrained embeddings where these predict better."""
        name = OWN["image"][0]
        is_there = is_installed("image")
        sets = drop_none(train, val)
        embed = replace(self, name=name)
        if is_there and not have_one_size(*sets):
            return _annotate(*embed(train, val), f"{SIZES}, so the pretrained {name} reads them")
        pixels = encode_plainly(train, val)
        rows = np.random.default_rng(0).permutation(len(train))[:MOST_IMAGES]
        subset = pixels[0].subset(np.sort(rows))
        share = predicted_share(subset)
        if share >= ENOUGH_RIGHT:
            return pixels
        note = f"pixels alone predict the classes poorly ({share:.0%} of some held-out images right"
        if not is_there:
            return _annotate(*pixels, f"{note}); {REMEDY}")
        quiet = replace(embed, store=None, progress=silent, only_plan=False)
        encoder_share = predicted_share(quiet(subset)[0])
        if encoder_share < share + GAIN_NEEDED:
            return _annotate(*pixels, f"{note}, {encoder_share:.0%} by {name})")
        note = f"{note}), so the pretrained {name} reads them ({encoder_share:.0%})"
        return _annotate(*embed(train, val), note)


def predicted_share(samples: SampleSet) -> float:
    """Return the balanced accuracy on held-out images of a support vector machine on pixels.

    1, so that nothing better than pixels is looked for, with fewer than 40 images or 2 classes,
    with fewer than 16 pixels a side, or if the values are not those of pixels.
    """
    shape = channels_first(samples.input_shape) or (1, 0, 0)
    low = float(samples.x.min())
    high = float(samples.x.max())
    are_pixels = min(shape[1:]) >= LEAST_SIDE and 0 <= low <= high <= BRIGHTEST
    if not samples.is_classification or not (samples.encoding or are_pixels):
        return 1.0
    counts = np.bincount(samples.y, minlength=samples.n_classes)
    rows = np.flatnonzero(counts[samples.y] >= FOLDS)
    if len(rows) < FEWEST_IMAGES or len(np.unique(samples.y[rows])) < 2:
        return 1.0
    from sklearn.metrics import balanced_accuracy_score  # these cost a second to import
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x = samples.x[rows].reshape(len(rows), -1)
    y = samples.y[rows]
    folds = fold_pairs(y, FOLDS, 0)
    predicted = cross_val_predict(make_pipeline(StandardScaler(), SVC()), x, y, cv=folds)
    return float(balanced_accuracy_score(y, predicted))


def _annotate(
    train: SampleSet, val: SampleSet | None, note: str
) -> tuple[SampleSet, SampleSet | None]:
    """Return both sets with a note, which is logged, on how they were read."""
    logger.warning("%s.", note)
    previous = train.encoding or Encoding("")
    encoding = replace(previous, note="; ".join(filter(None, (previous.note, note))))
    annotated_val = None
    if val is not None:
        annotated_val = replace(val, encoding=encoding)
    return replace(train, encoding=encoding), annotated_val
