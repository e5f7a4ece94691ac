"""Effects from an index that `datassay index` made, for the samples that DATA holds."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int
from torch import nn

from datassay.commands.explain.command import ExplainSettings
from datassay.commands.trained import correlation
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.optional import coalesce, inflect, select_rows
from datassay.progress import Progress
from datassay.report.wording import count
from datassay.rules import require
from datassay.score.effects import Attribution, TopEffects
from datassay.score.index.opened import Index
from datassay.score.index.opening import open_index
from datassay.store.location import redact

# Samples whose gradients are computed again to see that they are those of their ids, and the
# largest relative difference of self-influences that are the same.
N_COMPARED, SAME = 64, 0.01


@dataclass(frozen=True, slots=True)
class Opened:
    """An open index with the samples of DATA."""

    index: Index  # of n samples
    samples: SampleSet  # those of DATA that are in the index, in DATA's order
    # [n], positions in the index: of these samples first, then of those not in DATA
    order: Int[np.ndarray, " n"]
    warnings: tuple[str, ...]  # what does not fit between them

    @property
    def facts(self) -> dict[str, str]:
        """The fact that the page shows of the index."""
        index = self.index
        text = (
            f"{redact(index.location)}: {count(len(index), 'sample')}, "
            f"{index.bytes_per_sample:,} bytes each"
        )
        if index.fidelity is not None:
            text += f"; correlation {correlation(index)} with exact effects"
        return {"Index": text}

    def answer(
        self, queries: SampleSet | None, measure: str, top: int, progress: Progress
    ) -> Attribution:
        """Return effects on the queries (None: on each sample itself), samples in DATA's order."""
        samples = coalesce(queries, self.samples)
        n_top = top + 1 if queries is None else top  # a sample's effect on itself is dropped
        effects = self.index.query(samples, top=n_top, measure=measure, progress=progress)
        position = np.empty(len(self.order), int)
        position[self.order] = np.arange(len(self.order))
        top_effects = TopEffects(
            position[effects.top.raising], effects.top.raising_effect,
            position[effects.top.lowering], effects.top.lowering_effect,
        )  # fmt: skip
        assert effects.self_influence is not None
        return replace(
            effects,
            effect=select_rows(effects.effect, self.order),
            top=top_effects if queries is not None else _drop_self_effects(top_effects, top),
            total=effects.total[self.order],
            self_influence=effects.self_influence[self.order],
            ids=effects.ids[self.order],
        )


def _drop_self_effects(effects: TopEffects, top: int) -> TopEffects:
    """Return the top effects of queries that are the samples, without those on themselves."""
    sides = []
    raising = (effects.raising, effects.raising_effect)
    for rows, effect in (raising, (effects.lowering, effects.lowering_effect)):
        is_own = rows == np.arange(len(rows))[:, None]
        columns = np.argsort(is_own, axis=1, kind="stable")[:, :top]
        effect = np.where(is_own, 0.0, effect)
        sides += [np.take_along_axis(values, columns, 1) for values in (rows, effect)]
    return TopEffects(*sides)


def open_with_samples(
    settings: ExplainSettings, model: nn.Module, train: SampleSet, val: SampleSet | None
) -> Opened:
    """Open the index that the settings name, and find the samples of DATA in it, by id."""
    index = open_index(settings.index or "", model, device=settings.device)
    ids = index.ids
    row_of_id = {str(name): i for i, name in enumerate(ids.tolist())}
    positions = np.array([row_of_id.get(str(name), -1) for name in train.ids.tolist()])
    is_here = positions >= 0
    require(
        is_here.any(), "DATA", "hold samples of the index",
        f"ids of which none is in {redact(index.location)}, where they are {ids[0]!s}, ...",
        remedy="Name the data that it was made of, and --ids as then.", error=DataError,
    )  # fmt: skip
    if is_here.all():
        samples = train
    else:
        samples = train.subset(np.flatnonzero(is_here))
    positions = positions[is_here]
    index_only = np.setdiff1d(np.arange(len(ids)), positions)
    warnings = []
    split_ids = []
    if val is not None and val.split_off:
        split_ids = val.ids.tolist()
    n_seen = sum(str(name) in row_of_id for name in split_ids)
    if n_seen:
        warnings.append(
            f"{n_seen:,} of {count(len(split_ids), 'query', 'queries')} "
            f"{inflect(n_seen, 'is', 'are')} in the index and explained by what they are "
            "themselves: it was made with another --seed or --val-fraction. Give the same."
        )
    n_missing = len(train) - len(samples)
    if n_missing:
        warnings.append(
            f"{count(n_missing, 'sample')} of DATA {inflect(n_missing, 'is', 'are')} not in "
            "the index and left out; datassay index --append adds samples."
        )
    n_extra = len(index_only)
    if n_extra:
        warnings.append(
            f"{count(n_extra, 'sample')} of the index {inflect(n_extra, 'is', 'are')} not in "
            "DATA and shown by id alone."
        )
    warnings += _recheck(index, samples, positions)
    return Opened(index, samples, np.concatenate([positions, index_only]), tuple(warnings))


def _recheck(index: Index, samples: SampleSet, positions: Int[np.ndarray, " s"]) -> list[str]:
    """Raise if samples changed since the index was made; return a warning if only some did."""
    stored = index.self_influence()[positions]
    # Only those of large self-influence: of samples that are learned well it is close to 0.
    candidates = np.argsort(-stored, kind="stable")[: max(N_COMPARED, len(stored) // 2)]
    rows = np.sort(np.random.default_rng(0).permutation(candidates)[:N_COMPARED])
    computed = index.self_influence(samples.subset(rows))
    n_other = int((np.abs(computed - stored[rows]) > SAME * stored[rows]).sum())
    if 2 * n_other > len(rows):
        raise DataError(
            f"DATA must be what the index was made of; of {len(rows)} samples with the same ids "
            f"{n_other} have other gradients than in {redact(index.location)}. Name the data that "
            "it was made of, and read them as then, or make the index anew."
        )
    if not n_other:
        return []
    return [
        f"{n_other} of {len(rows)} samples that were compared {inflect(n_other, 'has', 'have')} "
        "other inputs or labels than when the index was made: effects are of those it was made of. "
        "Make the index anew to ask about these."
    ]
