"""An index that is there: queries, groups, self-influence, and further samples."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import nn

from datassay.collect.engine.base import Engine
from datassay.collect.engine.processes import engine_named
from datassay.collect.gradients.batches import Batches, outputs_of
from datassay.collect.gradients.objective import Objective
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import Tabular
from datassay.score.effects import LARGEST_MATRIX, Attribution, Effects, gather
from datassay.score.index.brittleness import Brittleness, Retrain, all_outputs, brittleness, check
from datassay.score.index.curvature import short_damping, stored_bases
from datassay.score.index.encoding import GradientEncoding, encode_by, query_rows
from datassay.score.index.identity import OWN_TEMPERATURE, new_ids, positions_of, samples_digest
from datassay.score.index.search import QueryRows, all_products, largest, prepare_rows
from datassay.score.index.segment import (
    RowWork,
    Segment,
    encode_sample_ids,
    fill,
    note_parts,
    segment_store,
)
from datassay.score.index.sketch import Sketch
from datassay.score.influence.first_order import Measure, measure_of
from datassay.score.influence.given import coding_of, query_set
from datassay.score.influence.gradient_methods import Prepared, queries_of
from datassay.score.influence.short_training import added_damping
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    describe_temperature,
    trained_network,
)
from datassay.score.settings import Indexing, Queries, check_top
from datassay.store.location import redact

# Share of samples that came after the curvature was fitted, from which on a warning says so.
OLD = 0.1
# Correlation with the effects of all weights, below which a warning says so.
NARROW = 0.9


@dataclass(slots=True, weakref_slot=True, eq=False)
class Index(Tabular):
    """Stored gradients of training samples, with the network that they are of.

    Attributes:
        location: path or URL.
        manifest: what it belongs to: network, code, loss, settings.
        segments: rows of the first samples, and of those that were appended.
        loss: of the training.
        sketch: from all weights to a row: `width` numbers of `bits` bits.
        fidelity: Pearson's correlation of its effects with those of exact rows, on samples of its
            own: "mean" over queries, "low" and "high" of its 95 % interval; None of few samples.
            About so much of the linear datamodelling score is kept.
        model: the network; None: not given.
        device: to compute on; None: where the model is.
        example: a training sample or two, whose classes and columns queries follow; None: a
            loader's, whose labels are the network's outputs.
    """

    location: str
    manifest: Mapping[str, Any]
    segments: list[Segment]
    loss: Objective
    sketch: Sketch
    fidelity: Mapping[str, float] | None
    model: nn.Module | None = None
    device: str | None = None
    example: SampleSet | None = None
    _network: TrainedNetwork | None = None
    _encoding: GradientEncoding | None = None

    def __len__(self) -> int:
        return sum(segment.n for segment in self.segments)

    def __repr__(self) -> str:
        name = "no network" if self.model is None else type(self.model).__name__
        size = f"{len(self):,} samples of {self.bytes_per_sample:,} bytes"
        return f"Index({self.location!r}, {size}, {name})"

    @property
    def ids(self) -> np.ndarray:
        """Sample ids, [n], in the order in which the samples were added."""
        return np.concatenate([segment.ids for segment in self.segments])

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of a row on disk; the curvature, stored once, is not counted."""
        return self.segments[0].row_bytes

    @property
    def appended(self) -> float:
        """Share of the samples that came after the curvature was fitted."""
        return 1 - self.segments[0].n / len(self)

    def query(
        self,
        new: Any,
        *,
        top: int | None = Indexing.top,
        measure: Any = Queries.measure,
        progress: Progress = silent,
    ) -> Attribution:
        """Return each training sample's effect on new inputs: the measure with it minus without.

        Args:
            new: m samples, as `influence` takes them; a loader's batches are taken as they come.
            top: samples a query and direction in `top`; None: 20. Up to n m = 2^25 the whole matrix
                stands with them.
            measure: as in `influence`; [b, tokens] makes each token a query of its own.
            progress: called with (step, samples done, samples in all).

        Returns:
            The effects, to first order, by the rows; the training loss is the mean over the samples
            in the index. `self_influence` is exact; `method` names what short training added to the
            damping.

        Raises:
            SettingError: there is no network, or a setting is out of range.
            ModelError: it is not the index's, or cannot be run on these samples.
            DataError: the index is damaged, or the samples are not usable.

        Cost: a gradient per query, and 2 n m width operations; every sample is looked at. Where the
            matrix does not stand, queries are rounded to 8 bits: by 1 % of the rows' own error.
        """
        check_top(top)
        network, queries, query_measure = self._prepare_queries(new, measure)
        q_rows, values = self._rows(network, query_measure, queries, progress)
        n, m = len(self), len(q_rows)
        warnings = tuple(dict.fromkeys((*network.warnings, *queries.warnings, *self.warnings)))
        method = (
            f"index, {self.manifest['curvature']} curvature, {self.bytes_per_sample:,} bytes a "
            f"sample{added_damping([short_damping(self.location)])}{describe_temperature(network)}"
        )
        self_effect = self.self_influence()
        if n * m <= LARGEST_MATRIX:
            effects = (
                Effects(start, products / -n, None, None)
                for start, products in all_products(self.segments, q_rows, progress)
            )
            gathered = gather(effects, values, query_measure.name, self.ids, method, None)
            if top is not None:
                chunks = [Effects(0, torch.from_numpy(gathered.effect), None, None)]
                top_only = gather(chunks, values, query_measure.name, self.ids, method, top)
                gathered = replace(gathered, top=top_only.top)
            return replace(gathered, self_influence=self_effect, warnings=warnings)
        extremes, total = largest(self.segments, q_rows, 1 / n, top or Indexing.top or n, progress)
        return Attribution(
            None, extremes, total, None, None, values.numpy(), query_measure.name, method,
            self.ids, warnings, self_effect,
        )  # fmt: skip

    def prepare_queries(self, queries: Any, *, measure: Any = Queries.measure) -> Prepared:
        """Return the network and curvature that `query` uses, for exact effects of samples.

        Args:
            queries: samples of the kind of the queries.
            measure: of the queries.

        Returns:
            The network; effects by it are exact, not by the rows.

        Raises:
            SettingError: as in `query`.
            ModelError: as in `query`.
            DataError: as in `query`.
        """
        network, _, query_measure = self._prepare_queries(queries, measure)
        bases = dict(self._load_encoding(network).bases)
        return Prepared(network, bases, query_measure, 1 / len(self))

    def groups(
        self,
        groups: Mapping[str, Collection[object]],
        new: Any,
        *,
        measure: Any = Queries.measure,
        progress: Progress = silent,
    ) -> Attribution:
        """Return the summed effect on new inputs of removing whole groups of samples.

        Args:
            groups: name → ids of its samples; a sample may be in several.
            new: as in `query`, like those that follow.
            measure: of the queries.
            progress: called with (step, samples done, samples in all).

        Returns:
            One row per group; `ids` are the groups' names. To first order effects add up: groups
            that are near-duplicates (in two of them) are not distinguished from single ones.

        Raises:
            DataError: a group is empty, or an id is not in the index.
            SettingError: as in `query`.
            ModelError: as in `query`.

        Cost: as of `query`.
        """
        positions_by_group = positions_of(groups, self.ids)
        network, queries, query_measure = self._prepare_queries(new, measure)
        q_rows, values = self._rows(network, query_measure, queries, progress)
        effect = torch.zeros(len(groups), len(q_rows), dtype=torch.float64)
        for start, products in all_products(self.segments, q_rows, progress):
            for row, positions in enumerate(positions_by_group):
                is_in_chunk = (positions >= start) & (positions < start + len(products))
                in_chunk = torch.from_numpy(positions[is_in_chunk] - start)
                effect[row] -= products[in_chunk].sum(0) / len(self)
        summed = Effects(0, effect, None, None)
        names = np.array(list(groups))
        gathered = gather([summed], values, query_measure.name, names, "index, groups", None)
        return replace(gathered, warnings=(*network.warnings, *self.warnings))

    def self_influence(self, samples: Any = None) -> Float[np.ndarray, " m"]:
        """Return how much each sample's presence lowers its own loss, loss unit: high is suspect.

        Args:
            samples: m samples, scored as though the index held them; ids play no part. None: the
                samples of the index.

        Returns:
            ‖c‖² / n by all coordinates, not by the rows, at the temperature of self-influence: 1
            where the index was made with "auto".

        Raises:
            SettingError: there are samples and no network.
            ModelError: it cannot be run on them.
            DataError: the index is damaged, or the samples are not usable.
        """
        if samples is None:
            return np.concatenate([segment.lengths for segment in self.segments]) / len(self)
        network, batches = self._prepare_batches(samples, "samples")
        encoding = self._load_encoding(network)
        copy = replace(network, train=batches, removed=None, progress=silent)
        squared_lengths = []
        for _, gradients, own_gradients in copy.both_gradients():
            squared_lengths.append(encoding.lengths(coalesce(own_gradients, gradients)))
        return torch.cat(squared_lengths).cpu().numpy() / len(self)

    def brittleness(
        self,
        new: Any,
        *,
        most: float = 0.5,
        retrain: Retrain | None = None,
        progress: Progress = silent,
    ) -> Brittleness:
        """Find the fewest training samples whose removal flips each prediction.

        Args:
            new: m samples with classes, as in `query`.
            most: share of the training samples that may be removed.
            retrain: positions of the samples that stay, [r] ascending, to a network trained on
                these alone: sizes are confirmed by bisection, about ten trainings a query. None:
                effects are added up, which took two to five times as many samples.
            progress: called with (step, queries done, queries in all).

        Returns:
            A row per query.

        Raises:
            SettingError: the loss is no cross-entropy, most is out of range, or as in `query`.

        Cost: that of `query` for k outputs, and the trainings. Source: Ilyas et al. (2022, §4.2).
        """
        network, queries = self._prepare_batches(new, "new", are_queries=True)
        outputs = all_outputs(network.model, queries)
        check(len(self), outputs, self.loss.name, most)
        effect = self.query(new, top=None, measure=outputs_of, progress=progress).effect
        assert effect is not None
        return brittleness(effect, outputs, queries, most, retrain, progress)

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, self_influence and segment, 0 for the first samples."""
        numbers = [np.full(segment.n, i) for i, segment in enumerate(self.segments)]
        return pa.table({
            "id": self.ids,
            "self_influence": self.self_influence(),
            "segment": np.concatenate(numbers),
        })

    def append(
        self, more: Any, *, engine: str | Engine = "in_process", progress: Progress = silent
    ) -> "Index":
        """Add training samples to the index; old rows and the curvature stay as they are.

        Args:
            more: as `index` takes them. Samples numbered from 0 are numbered on.
            engine: as in `index`.
            progress: called with (step, samples done, samples in all).

        Returns:
            This index; an interrupted call goes on where it was, with the same samples.

        Raises:
            DataError: an id or all of these samples are in the index.
            SettingError: another appending was begun and not finished.
            ModelError: the network cannot be run on them.

        Cost: a gradient per sample.
        """
        network, batches = self._prepare_batches(more, "more")
        digest, ids = samples_digest(batches)
        stored_ids = encode_sample_ids(new_ids(ids, self.ids))
        encoding = self._load_encoding(network)
        number = len(self.segments)
        run = {"of": self.manifest["of"], "number": number, "training samples": digest}
        n_bytes = self.sketch.n_bytes
        store = segment_store(self.location, number, run, len(ids), n_bytes, stored_ids, {})
        work = RowWork(replace(network, progress=silent), batches, encoding, stored_ids)
        engine = engine_named(engine)
        step = f"append to {redact(self.segments[0].store.location)}"
        fill(store, work.arrays, engine, progress, step)
        note_parts(self.location, str(self.manifest["of"]))
        self.segments.append(Segment(store))
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the index's answers: rows too narrow, or an outdated curvature."""
        messages = []
        if self.fidelity is not None and self.fidelity["high"] < NARROW:
            messages.append(
                f"rows of {self.sketch.n_bytes:,} bytes follow the effects of all weights at a "
                f"correlation of {self.fidelity['mean']:.2f}: about so much of what these predict "
                "of retraining is left. Make the index with more bytes_per_sample, or ask "
                "influence, where it matters."
            )
        if self.appended > OLD:
            messages.append(
                f"{self.appended:.0%} of the samples came after the curvature was fitted: effects "
                "are in the old metric. Make the index anew where the new samples are of another "
                "kind."
            )
        return tuple(messages)

    def _prepare_queries(self, data: Any, measure: Any) -> tuple[TrainedNetwork, Batches, Measure]:
        """Return the network, the queries in batches, and what is measured of them."""
        network, batches = self._prepare_batches(data, "new", are_queries=True)
        return network, batches, measure_of(measure, self.loss, has_several=network.has_several)

    def _prepare_batches(
        self, samples: Any, name: str, *, are_queries: bool = False
    ) -> tuple[TrainedNetwork, Batches]:
        """Return the network (made at the first call) and samples in batches, labels coded."""
        if self.model is None:
            raise SettingError(
                f"model must be given to compute gradients with {redact(self.location)}: "
                "open_index(location, model)."
            )
        coding = coding_of(self.model, self.loss)
        samples = query_set(coding, samples, self.example, name, are_queries=are_queries)
        if self._network is None:
            self._network = trained_network(
                self.model,
                samples,
                loss=self.loss,
                parameters=self.manifest["parameters"],
                precision=self.manifest["precision"],
                device=self.device,
                progress=silent,
                direct=self.manifest.get("direct"),  # other samples may find others unfit
            )
            temperature = self.manifest[OWN_TEMPERATURE]
            if temperature != self.loss.temperature:
                self._network.self_influence_loss = replace(self.loss, temperature=temperature)
        return self._network, queries_of(self._network, samples, name)

    def _rows(
        self, network: TrainedNetwork, measure: Measure, queries: Batches, progress: Progress
    ) -> tuple[QueryRows, Float[torch.Tensor, " m"]]:
        """Return the queries' rows, ready to be compared, and the measure of each, [m]."""
        encode = self._load_encoding(network).query_rows
        return prepare_rows(self.sketch, query_rows(network, encode, measure, queries, progress))

    def _load_encoding(self, network: TrainedNetwork) -> GradientEncoding:
        """Return the encoding of gradients, its curvature read at the first call."""
        if self._encoding is None:
            bases = stored_bases(self.location, network)
            if bases is None or self.manifest["blocks"] != list(bases):
                raise DataError(
                    f"an index must be whole; the curvature of {redact(self.location)} is not. Run "
                    "index(...) again: what is stored there is used."
                )
            self._encoding = encode_by(bases, self.sketch, network.dtype)
        return self._encoding
