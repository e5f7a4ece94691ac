"""A pass over the model that stores its chunks and computes only the missing ones."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.engine.base import Engine
from datassay.collect.fingerprint import machine_fingerprint, model_fingerprint, samples_fingerprint
from datassay.collect.form import Form
from datassay.collect.jacobian.blocks import named_tensors
from datassay.collect.jacobian_pass import OUTPUTS, PROJECTED, JacobianPass
from datassay.errors import ModelError
from datassay.machine import thread_count
from datassay.store.chunks import Chunk, StoredFeatures, encode_ids
from datassay.store.features import FORMAT, FeatureStore, Layout, features_manifest
from datassay.store.location import redact

logger = logging.getLogger(__name__)

TARGETS, IDS = "targets", "ids"
# Stored samples that are computed again each time a store is opened, each of another chunk.
N_RECHECKED = 8
# Of the norm of a sample's values: rounding alone, on another number of threads or in a batch of
# another size, moves them by some 100 units in the last place.
SAME = {"float64": 1e-9, "float32": 1e-4}


class StoredPass:
    """A pass that reads stored chunks, and computes and stores the missing ones."""

    def __init__(
        self,
        location: str | Path,
        work: JacobianPass,
        model: nn.Module,
        targets: Mapping[str, Tensor],
        seed: int,
    ):
        """Open or create the store, and check every chunk that it holds."""
        self.work = work
        self._known = {
            split: {TARGETS: targets[split].numpy(), IDS: ids}
            for split, ids in encode_ids({p: s.ids for p, s in work.sets.items()}).items()
        }
        names = ("representation", "outputs", "projection", "kind", "precision")
        names += tuple(name for name in ("landmarks", "mixtures") if getattr(work.form, name))
        run = {
            **model_fingerprint(model),
            **machine_fingerprint(work.frozen),
            "trained tensors": {**work.layers.dense, **work.layers.direct},
            "training samples": samples_fingerprint(work.sets["train"]),
            "validation samples": samples_fingerprint(work.sets.get("val")),
            **{name: getattr(work.form, name) for name in names},
            "seed": seed,
            **({"landmarks' root": "Cholesky"} if work.form.landmarks else {}),
        }
        # What a later call takes over from the store, instead of being compared with it.
        form = {name: v for name, v in asdict(work.form).items() if name != "products"}
        unchecked = {"form": form, "threads": torch.get_num_threads()}
        self.store = FeatureStore(location, run, self._make_layout(), unchecked)
        self._complete = self.store.list_complete()  # the numbers of the stored chunks
        self._check_rows()

    def arrays(self, names: Iterable[str], engine: Engine) -> Iterator[dict[str, Tensor]]:
        """Yield the named arrays of each chunk in order; missing ones are computed first."""
        missing = [chunk for chunk in self.work.chunks if chunk.number not in self._complete]
        computed = engine.map(StoredPass.compute, self, missing)
        for chunk in self.work.chunks:
            if chunk.number not in self._complete:
                next(computed)
            yield {name: torch.from_numpy(self.store.get(chunk.number, name)) for name in names}

    def features(self, split: str) -> StoredFeatures | None:
        """Return a part's features, left in the store; None without such samples."""
        if split not in self.work.sets:
            return None
        return StoredFeatures(self.store, split, f"jacobian.{PROJECTED}")

    def compute(self, chunk: Chunk) -> None:
        """Compute and store a chunk; repeating it changes nothing."""
        values = self._compute_arrays(chunk)
        constants = {name: a[chunk.samples] for name, a in self._known[chunk.split].items()}
        self.store.put(chunk.number, values | constants)

    def _make_layout(self) -> Layout:
        """Return names, per-sample shapes and types of the stored arrays."""
        outputs, blocks = self.work.template()
        templates = {OUTPUTS: outputs, **named_tensors(blocks)}
        arrays = {name: (tuple(t.shape[1:]), t.numpy().dtype) for name, t in templates.items()}
        arrays |= {name: (a.shape[1:], a.dtype) for name, a in self._known["train"].items()}
        return Layout(self.work.sizes, arrays, self.work.form.chunk)

    def _check_rows(self) -> None:
        """Raise ModelError if a few stored samples, computed again, differ."""
        # Then the code changed where its fingerprint does not see it. Other samples are drawn each
        # time: a change that these do not show may show in the next ones.
        rng = np.random.default_rng()
        for number in rng.permutation(sorted(self._complete))[:N_RECHECKED].tolist():
            chunk = self.store.chunks[number]
            index = int(rng.integers(chunk.start, chunk.stop))
            # A batch of one may round otherwise (a ReLU turns off): so a difference counts only if
            # the whole chunk shows it too.
            if self._compare_with_stored(replace(chunk, start=index, stop=index + 1)):
                for kind, sample in self._compare_with_stored(chunk):
                    raise ModelError(
                        "the model must be the one that the store was made with; "
                        f"{redact(self.store.location)} holds other {kind} of sample {sample} at "
                        "equal weights. Undo the change of its code, or name another store."
                    )

    def _compute_arrays(self, chunk: Chunk) -> dict[str, np.ndarray]:
        with thread_count(int(self.store.free["threads"])):
            return {name: t.numpy() for name, t in self.work.arrays(chunk).items()}

    def _compare_with_stored(self, span: Chunk) -> list[tuple[str, object]]:
        """Return (kind, first differing id) of arrays in a span that differ from the store."""
        # Kinds are "outputs" and "Jacobian rows".
        chunk = self.store.chunks[span.number]
        inside = slice(span.start - chunk.start, span.stop - chunk.start)
        norms = defaultdict(float)  # squared, [samples of the span], by kind
        distances = defaultdict(float)
        for name, computed in self._compute_arrays(span).items():
            # All tensors together: gradients that cancel in one tensor are nothing but rounding.
            kind = name.partition(".")[0]
            n = len(computed)
            stored = self.store.get(span.number, name)[inside].astype(np.float64)
            norms[kind] += np.square(stored).reshape(n, -1).sum(1)
            distances[kind] += np.square(computed - stored).reshape(n, -1).sum(1)
        limit = SAME[self.work.form.precision] ** 2
        ids = self.work.sets[span.split].ids
        results = {kind: np.flatnonzero(distances[kind] > limit * norms[kind]) for kind in norms}
        return [
            ("outputs" if kind == OUTPUTS else "Jacobian rows", ids[span.start + positions[0]])
            for kind, positions in results.items()
            if len(positions)
        ]


def stored_form(location: str | Path, settings: Mapping[str, object]) -> Form | None:
    """Return the form in a store; None without one, or if the settings rule it out."""
    manifest = features_manifest(location)
    if manifest is None or manifest["run"].get("format") != FORMAT:
        return None
    form = Form(**manifest["free"]["form"])
    requested = {name: settings.get(name, "auto") for name in ("projection", "outputs")}
    stored = form.options
    kind = settings.get("projection_kind", form.kind)
    if any(v not in {"auto", stored[name]} for name, v in requested.items()) or kind != form.kind:
        return None
    if settings.get("precision", "auto") not in {"auto", form.precision}:
        return None
    if "auto" in requested.values():
        return form
    return replace(form, passed_over="")
