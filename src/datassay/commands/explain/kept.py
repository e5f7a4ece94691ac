"""Effects from an index that `datassay index` made, for the samples that DATA shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int
from torch import nn

from datassay.commands.explain.command import ExplainSettings
from datassay.commands.trained import check_left_to_index
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.progress import Progress
from datassay.report.wording import count, percent
from datassay.score.effects import Attribution, TopEffects
from datassay.score.index.opened import Index
from datassay.score.index.opening import open_index
from datassay.store.location import shown

# What an index was made with, and is read from it.
SETTLED = ("loss", "curvature", "damping", "parameters", "precision")
# Samples whose gradients are computed again to see that they are those of their ids, and the
# relative difference of two that are the same.
N_COMPARED, SAME = 64, 0.01


@dataclass(frozen=True, slots=True)
class Opened:
    """An index beside the samples of DATA.

    Attributes:
        index: of n samples.
        samples: those of DATA that are in the index, in DATA's order.
        order: [n], positions in the index: of these samples first, then of those not in DATA.
        warnings: what does not fit between them.
    """

    index: Index
    samples: SampleSet
    order: Int[np.ndarray, " n"]
    warnings: tuple[str, ...]

    @property
    def facts(self) -> dict[str, str]:
        """What the page says of the index."""
        index, told = self.index, self.index.rank_correlation
        text = (
            f"{shown(index.location)}: {count(len(index), 'sample')}, {index.width:,} numbers "
            f"each, which hold {percent(round(index.share, 3))} of the effects"
        )
        if told is not None:
            text += (
                f"; rank correlation {told['mean']:.3f} ({told['low']:.3f} to {told['high']:.3f}) "
                "with the effects of all coordinates"
            )
        return {"Index": text}

    def answer(
        self, queries: SampleSet | None, measure: str, top: int, progress: Progress
    ) -> Attribution:
        """Effects on queries, in this order.

        Args:
            queries: m samples; None: the samples of DATA, without what each does to itself.
            measure: of the queries.
            top: samples a query and direction.
            progress: called with (step, samples done, samples in all).

        Returns:
            Of all n samples; the first are those that DATA shows.
        """
        asked = self.samples if queries is None else queries
        most = top + (queries is None)
        found = self.index.query(asked, top=most, measure=measure, progress=progress)
        place = np.empty(len(self.order), int)
        place[self.order] = np.arange(len(self.order))
        best = TopEffects(
            place[found.top.raising], found.top.raising_effect,
            place[found.top.lowering], found.top.lowering_effect,
        )  # fmt: skip
        assert found.self_influence is not None
        return replace(
            found,
            effect=None if found.effect is None else found.effect[self.order],
            top=best if queries is not None else _of_others(best, top),
            total=found.total[self.order],
            self_influence=found.self_influence[self.order],
            ids=found.ids[self.order],
        )


def _of_others(best: TopEffects, top: int) -> TopEffects:
    """The same where query j is sample j, which does not explain itself."""
    sides = []
    for who, effect in (
        (best.raising, best.raising_effect),
        (best.lowering, best.lowering_effect),
    ):
        is_own = who == np.arange(len(who))[:, None]
        others = np.argsort(is_own, axis=1, kind="stable")[:, :top]
        effect = np.where(is_own, 0.0, effect)
        sides += [np.take_along_axis(each, others, 1) for each in (who, effect)]
    return TopEffects(*sides)


def check_index(settings: ExplainSettings) -> None:
    """Refuse what an index cannot answer, or has settled.

    Args:
        settings: of the command, with an index.

    Raises:
        SettingError: several networks, or a setting that the index has.
    """
    if len(settings.weights) > 1:
        raise SettingError(
            f"index answers for the one network that it was made with; got {len(settings.weights)} "
            "--weights. Give one, or leave out --index to average several."
        )
    check_left_to_index(settings, SETTLED, "index")


def opened(
    settings: ExplainSettings, model: nn.Module, train: SampleSet, val: SampleSet | None
) -> Opened:
    """Open the index that the settings name, and find the samples of DATA in it.

    Args:
        settings: of the command.
        model: the network.
        train: DATA.
        val: the queries; None: the training samples.

    Returns:
        Both, matched by id.

    Raises:
        DataError: there is no index, or DATA is not what it was made of.
        ModelError: it was made with another network.
    """
    index = open_index(settings.index or "", model, device=settings.device)
    ids = index.ids
    known = {str(one): i for i, one in enumerate(ids.tolist())}
    places = np.array([known.get(str(one), -1) for one in train.ids.tolist()])
    is_here = places >= 0
    if not is_here.any():
        raise DataError(
            f"DATA must hold samples of the index; none of its ids is in {shown(index.location)}, "
            f"where they are {ids[0]!s}, ... Name the data that it was made of, and --ids as then."
        )
    samples = train if is_here.all() else train.subset(np.flatnonzero(is_here))
    places = places[is_here]
    rest = np.setdiff1d(np.arange(len(ids)), places)
    warnings = [
        *_seen(known, val),
        *_unmatched(len(train) - len(samples), len(rest)),
        *_changed(index, samples, places),
    ]
    return Opened(index, samples, np.concatenate([places, rest]), tuple(warnings))


def _seen(known: Mapping[str, int], val: SampleSet | None) -> list[str]:
    """Queries split off DATA that are in the index: it was made by another split."""
    if val is None or not val.split_off:
        return []
    n_seen = sum(str(one) in known for one in val.ids.tolist())
    if not n_seen:
        return []
    return [
        f"{n_seen:,} of {count(len(val), 'query', 'queries')} {'is' if n_seen == 1 else 'are'} "
        "in the index and explained by what they are themselves: it was made with another --seed "
        "or --val-fraction. Give the same."
    ]


def _unmatched(lost: int, hidden: int) -> list[str]:
    told = []
    if lost:
        told.append(
            f"{count(lost, 'sample')} of DATA {'is' if lost == 1 else 'are'} not in the index and "
            "left out; datassay index --append adds samples."
        )
    if hidden:
        told.append(
            f"{count(hidden, 'sample')} of the index {'is' if hidden == 1 else 'are'} not in DATA "
            "and shown by id alone."
        )
    return told


def _changed(index: Index, samples: SampleSet, places: Int[np.ndarray, " s"]) -> list[str]:
    """Whether samples are those that the index knows by their ids, told by some gradients."""
    own = index.self_influence()[places]
    # Of samples that are learned well hardly anything is left to compare.
    most = np.argsort(-own, kind="stable")[: max(N_COMPARED, len(own) // 2)]
    some = np.sort(np.random.default_rng(0).permutation(most)[:N_COMPARED])
    now = index.self_influence(samples.subset(some))
    n_other = int((np.abs(now - own[some]) > SAME * own[some]).sum())
    if 2 * n_other > len(some):
        raise DataError(
            f"DATA must be what the index was made of; of {len(some)} samples with the same ids "
            f"{n_other} have other gradients than in {shown(index.location)}. Name the data that "
            "it was made of, and read them as then, or make the index anew."
        )
    if not n_other:
        return []
    return [
        f"{n_other} of {len(some)} samples that were compared {'has' if n_other == 1 else 'have'} "
        "other inputs or labels than when the index was made: effects are of those it was made of. "
        "Make the index anew to ask about these."
    ]
