"""One pass of a frozen encoder over samples, in chunks that a store keeps."""

import hashlib
import logging
import time
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from datassay.collect.fingerprint import machine_fingerprint, weights_digest
from datassay.data.pictures import BRIGHTEST, Pictures, channels_first
from datassay.data.samples import Encoding, SampleSet
from datassay.data.source import check_fits, reading
from datassay.errors import DataError
from datassay.models.backbones.encoder import Encoder
from datassay.optional import coalesce, text_if
from datassay.progress import Progress
from datassay.store.chunks import PARTS, Chunk, chunks_of
from datassay.store.digests import digest
from datassay.store.features import FeatureStore, Layout
from datassay.store.location import EMBEDDINGS, inside

logger = logging.getLogger(__name__)

STEP = "embed"
CHUNK = 256  # samples
SAMPLES_BEFORE_ESTIMATE = 16  # of the seconds that all will take
TEXT_BATCH, DEVICE_BATCH = 16, 64
LONG_SECONDS = 60.0
MOST_KNOWN = 50_000  # texts whose embeddings are kept for their repeats
CONSTANT_BELOW = 1e-6  # of the median standard deviation of an embedding's numbers


class EmbeddingPass:
    """One pass of an encoder over both sets."""

    def __init__(
        self,
        encoder: Encoder,
        sets: Sequence[SampleSet],
        store: str | Path | None,
        device: torch.device,
        progress: Progress,
    ):
        """Prepare the samples and move the encoder's network to the device."""
        self.encoder = encoder
        self.store_location = store
        self.device = device
        self.progress = progress
        self.parts = dict(zip(PARTS, sets, strict=False))
        raw = {name: _read_inputs(samples) for name, samples in self.parts.items()}
        scale = _find_pixel_scale(raw)
        self.samples = {name: _Samples(values, scale) for name, values in raw.items()}
        self.sizes = {name: len(samples) for name, samples in self.parts.items()}
        self.total = sum(self.sizes.values())
        encoder.network.to(device)
        # On one thread lite0 takes 18 ms per image alone and 35 ms in batches of 16, whose
        # intermediate values leave the caches; minilm 14 ms a short text and 9 ms in batches.
        cpu_batch = TEXT_BATCH
        if encoder.reads != "text":
            cpu_batch = torch.get_num_threads()
        self.batch_size = DEVICE_BATCH
        if device.type == "cpu":
            self.batch_size = cpu_batch
        self.n_embedded = 0  # samples embedded here, not read from the store
        self.started = 0.0  # time at which the first of them began
        self.clocks: list[tuple[int, float]] = []  # samples embedded, and when, by batch
        self.known: dict[str | int, tuple[np.ndarray, bool]] = {}  # by key: embedding, was it cut?

    def sets(self) -> dict[str, SampleSet]:
        """Return both sets with x replaced by embeddings; a text's number columns come first."""
        x = self._allocate_inputs()
        n_cut = 0
        for chunk, values, is_cut in self._embed_chunks():
            x[chunk.split][chunk.samples, -self.encoder.width :] = values
            n_cut += int(is_cut.sum())
        notes = []
        if n_cut:
            notes = [f"{n_cut:,} of {self.total:,} texts were cut at {self.encoder.limit} tokens"]
            logger.warning("%s: %s.", self.encoder.name, notes[0])
        if n_zero := self._zero_constants(x):
            notes.append(
                f"{n_zero} of its numbers vary by less than a millionth of what the others do, and "
                "were set to 0"
            )
        seconds = 0.0
        if self.n_embedded:
            seconds = time.perf_counter() - self.started
        return self._to_sets(x, "; ".join(notes), seconds)

    def plan_sets(self) -> dict[str, SampleSet]:
        """Return both sets with placeholder embeddings, and the seconds that all would take."""
        # The first embeddings are repeated; `encoding` holds the seconds.
        x = self._allocate_inputs()
        rows = np.arange(min(SAMPLES_BEFORE_ESTIMATE, self.sizes["train"]))
        self._embed("train", rows[:2])
        self.clocks = [(0, time.perf_counter())]
        parts = []
        for batch in np.split(rows, range(self.batch_size, len(rows), self.batch_size)):
            parts.append(self._embed("train", batch)[0])
            self.clocks.append((self.clocks[-1][0] + len(batch), time.perf_counter()))
        values = np.concatenate(parts)
        for set_x in x.values():
            set_x[:, -self.encoder.width :] = values[np.arange(len(set_x)) % len(values)]
        self._zero_constants(x)
        return self._to_sets(x, "", self._estimate_seconds())

    def _estimate_seconds(self) -> float:
        """Estimate how long all samples take, by all batches but the first, which is slow."""
        (n_start, start), (n_end, end) = self.clocks[0], self.clocks[-1]
        return (end - start) / (n_end - n_start) * self.total

    def _allocate_inputs(self) -> dict[str, np.ndarray]:
        """Return each part's x with a text's number columns filled in, embeddings still empty."""
        width = self.encoder.width
        x = {}
        for name, samples in self.parts.items():
            n_numbers = 0
            if self.encoder.reads == "text":
                n_numbers = samples.x.shape[1]
                if samples.encoding is not None:  # its columns are replaced
                    n_numbers -= samples.encoding.width
            n_columns = n_numbers + width
            check_fits(4.0 * self.total * n_columns, f"embeddings of {self.total:,} samples")
            x[name] = np.empty((len(samples), n_columns), np.float32)
            if n_numbers:
                x[name][:, :n_numbers] = samples.x[:, :n_numbers]
        return x

    def _zero_constants(self, x: dict[str, np.ndarray]) -> int:
        """Set embedding columns that vary only by rounding to 0; return their number."""
        train = x["train"][:, -self.encoder.width :]
        deviation = np.array([column.std(dtype=np.float64) for column in train.T])
        constant_idx = np.flatnonzero(deviation < CONSTANT_BELOW * np.median(deviation))
        for values in x.values():
            values[:, values.shape[1] - self.encoder.width + constant_idx] = 0
        return len(constant_idx)

    def _to_sets(self, x: dict[str, np.ndarray], note: str, seconds: float) -> dict[str, SampleSet]:
        """Return the parts with their new x, and an encoding that notes how it was made."""
        encoder = self.encoder
        encoding = Encoding(
            encoder.name, encoder.width, self.weights, encoder.recipe, note, round(seconds, 1)
        )
        return {name: _set_x(samples, x[name], encoding) for name, samples in self.parts.items()}

    @property
    def weights(self) -> str:
        """SHA-256 of the weights: of their file, or of the tensors where none is known."""
        return self.encoder.digest or weights_digest(self.encoder.network)

    def _embed_chunks(self) -> Iterator[tuple[Chunk, np.ndarray, np.ndarray]]:
        """Yield (chunk, embeddings [b, width], is_cut [b]) in order, stored or computed."""
        store = self._open_store()
        complete = set()
        if store is not None:
            complete = store.list_complete()
        for chunk in chunks_of(self.sizes, CHUNK):
            if store is not None and chunk.number in complete:
                values = store.get(chunk.number, "embedding")
                cut = store.get(chunk.number, "cut")
            else:
                values, cut = self._embed_chunk(chunk)
                if store is not None:
                    store.put(chunk.number, {"embedding": values, "cut": cut})
            if self.encoder.reads == "text" and len(self.known) < MOST_KNOWN:
                self.known |= zip(
                    self._list_keys(chunk), zip(values, cut, strict=True), strict=True
                )
            yield chunk, values, cut
            before = 0
            if chunk.split == "val":
                before = self.sizes["train"]
            self.progress(STEP, before + chunk.stop, self.total)

    def _open_store(self) -> FeatureStore | None:
        """Open the store of embeddings; return None without a store location."""
        if self.store_location is None:
            return None
        run = {
            "holds": "embeddings",
            "encoder": self.encoder.name,
            "weights": self.weights,
            "recipe": self.encoder.recipe,
            "data": {name: samples.digest() for name, samples in self.samples.items()},
            **machine_fingerprint(self.encoder.network),
        }
        arrays = {
            "embedding": ((self.encoder.width,), np.dtype(np.float32)),
            "cut": ((), np.dtype(np.bool_)),
        }
        layout = Layout(self.sizes, arrays, CHUNK)
        return FeatureStore(inside(self.store_location, EMBEDDINGS), run, layout, {})

    def _list_keys(self, chunk: Chunk) -> list[str | int]:
        """Return a key per sample of a chunk: the text itself, or the image's position."""
        rows = range(chunk.start, chunk.stop)
        samples = self.samples[chunk.split]
        if self.encoder.reads == "text":
            return [samples[row] for row in rows]
        return list(rows)

    def _embed_chunk(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return a chunk's embeddings, [b, width], and which texts were truncated, [b]."""
        # Each distinct text is embedded once, in batches of similar length.
        keys = self._list_keys(chunk)
        embedded = {}
        row_of = {key: chunk.start + i for i, key in enumerate(keys) if key not in self.known}
        order = sorted(row_of, key=lambda key: len(key) if isinstance(key, str) else 0)
        self.started = self.started or time.perf_counter()
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            values, cut = self._embed(chunk.split, [row_of[key] for key in batch])
            embedded |= zip(batch, zip(values, cut, strict=True), strict=True)
            self.n_embedded += len(batch)
            self.clocks.append((self.n_embedded, time.perf_counter()))
            n_timed = self.n_embedded - self.clocks[0][0]
            if n_timed - len(batch) < SAMPLES_BEFORE_ESTIMATE <= n_timed:
                self._warn_if_long()
        available = ChainMap(embedded, self.known)
        values, cut = zip(*(available[key] for key in keys), strict=True)
        return np.stack(values), np.array(cut, bool)

    def _warn_if_long(self) -> None:
        """Log how long all samples take, by those embedded so far, if that is long."""
        seconds = self._estimate_seconds()
        hint = text_if(not self.store_location, "; --store keeps the embeddings for the next run")
        task = f"{self.total:,} samples with {self.encoder.name}"
        if seconds > LONG_SECONDS:
            logger.warning("embedding %s takes about %.0f s%s.", task, seconds, hint)

    def _embed(
        self, set_name: str, rows: Iterable[Any]
    ) -> tuple[Float[np.ndarray, "b width"], np.ndarray]:
        """Return the embeddings of some rows, float32, and which texts were truncated, [b]."""
        prepared = [self.encoder.prepare(self.samples[set_name][int(row)]) for row in rows]
        with torch.no_grad():
            batch = self.encoder.embed(prepared, self.device)
        return batch.values.float().cpu().numpy(), batch.cut


def _read_inputs(samples: SampleSet) -> Any:
    """Return the raw inputs for the encoder: texts, image files, or an array of images."""
    if samples.texts is not None:
        return samples.texts
    if samples.images is None:
        return samples.x
    return samples.images


def _find_pixel_scale(raw: dict[str, Any]) -> float:
    """Return what all pixel arrays are divided by: 1 or 255; raise for other values."""
    arrays = [v for v in raw.values() if _are_pixels(v)]
    if not arrays:
        return 1.0
    low = min(float(a.min()) for a in arrays)
    high = max(float(a.max()) for a in arrays)
    if channels_first(arrays[0].shape[1:]) is None or not 0 <= low <= high <= BRIGHTEST:
        raise DataError(
            "images for an encoder must have 1 or 3 channels and values of 0 to 1 or of 0 to 255; "
            f"got samples of shape {list(arrays[0].shape[1:])} with {low:.3g} to {high:.3g}. Undo "
            "what was done to them, or take another --model."
        )
    if high > 1:
        return float(BRIGHTEST)
    return 1.0


def _are_pixels(raw: Any) -> bool:
    return isinstance(raw, np.ndarray) and raw.dtype.kind not in "UO"


@dataclass(frozen=True, slots=True)
class _Samples:
    """The samples of one part as the encoder reads them, one at a time."""

    raw: Any
    scale: float

    def __getitem__(self, row: int) -> Any:
        """Return a string, or an image [channels, height, width] in [0, 1]."""
        sample = self.raw[row]
        if isinstance(sample, str):
            return sample
        image = np.asarray(sample, np.float32) / np.float32(self.scale)
        if image.ndim == 2:
            return image[None]
        if channels_first(image.shape) == image.shape:
            return image
        return np.moveaxis(image, -1, 0)

    def digest(self) -> str:
        """Return the SHA-256 of all samples: an array's bytes, texts, or files' contents."""
        if _are_pixels(self.raw):
            return digest({"x": self.raw})
        items = self.raw
        sha = hashlib.sha256()
        if isinstance(self.raw, Pictures):
            items = self.raw.files
            sha.update(f"upright, on {self.raw.background}".encode())  # how they are read
        for item in items:
            content = item
            if isinstance(item, Path):
                with reading(item):
                    content = item.read_bytes()
            elif not isinstance(item, bytes):
                content = str(item).encode()
            sha.update(hashlib.sha256(content).digest())
        return sha.hexdigest()


def _set_x(samples: SampleSet, x: np.ndarray, encoding: Encoding) -> SampleSet:
    """Return the samples with a new x, whose embedding columns get numbered names."""
    n_numbers = x.shape[1] - encoding.width
    embedding_names = (f"{encoding.name} {i}" for i in range(encoding.width))
    names = (*samples.feature_names[:n_numbers], *embedding_names)
    encoded = replace(samples, x=x, feature_names=names, encoding=encoding)
    if samples.texts is not None:
        return replace(encoded, kind="text")
    return replace(encoded, images=coalesce(samples.images, samples.x))
