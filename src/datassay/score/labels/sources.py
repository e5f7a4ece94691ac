"""Sources of labels, such as annotators, batches, pages or days, of which one errs far more often.

Calibrated held-out outputs say how surprising each label ought to be. A source of which labels are
more surprising than that errs, whatever its samples are: hard ones are expected to surprise.

    s_i = −ln p_i[y_i] − H(p_i),   v_i = Var_c(−ln p_i[c]),   z = Σ_g s_i / √(Σ_g v_i)

Where p is right and labels do not depend on the source, z has mean 0 and variance 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import gammaincc
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.results import result
from datassay.score.labels.likelihood import (
    NO_RATE,
    RIGHT_COUNT,
    NoiseFit,
    step_calibration,
    uniform_transition,
)

# A column tells sources where it has so many values at most; of each there are so many labels.
MOST_VALUES, FEWEST_LABELS = 50, 15
# The chance that any source of labels without errors is named, of all that are tested.
FALSE_ALARM = 0.02
# A source is named where its rate of errors exceeds the others' by MORE_OFTEN, and TIMES times.
MORE_OFTEN, TIMES = 0.1, 1.5
MOST_WRONG = 0.95
ROUNDS = 40
TINY = 1e-12
LEAST_SKEWNESS = 1e-3  # below it the gamma distribution is as good as normal


@result
class LabelSources:
    """Labels by their source, of a column of which one value or more err far more often.

    Attributes:
        column: its name.
        values: of the column, in order.
        code: [n], the value of each sample, a position in `values`.
        n_labels: [values], how many labels each has.
        contradicted: [values], share of them that held-out predictions contradict.
        expected: [values], share that would be contradicted if labels did not depend on the source.
        share_wrong: [values], estimated share of wrong labels; that of all others together where a
            source is not named.
        errs: [values], which ones err far more often: those that are named.
    """

    column: str
    values: tuple[str, ...]
    code: Int[np.ndarray, " n"]
    n_labels: Int[np.ndarray, " values"]
    contradicted: Float[np.ndarray, " values"]
    expected: Float[np.ndarray, " values"]
    share_wrong: Float[np.ndarray, " values"]
    errs: Bool[np.ndarray, " values"]

    @property
    def is_erring(self) -> Bool[np.ndarray, " n"]:
        """[n] labels by sources that err far more often."""
        return self.errs[self.code]

    @property
    def warning(self) -> str:
        """The sentence that names the sources that err more often than others."""
        shares = [
            f"{self.values[v]} ({100 * self.share_wrong[v]:.0f} % of {self.n_labels[v]:,})"
            for v in np.flatnonzero(self.errs)
        ]
        others_text = f"others {100 * float(self.share_wrong[~self.errs].mean()):.0f} %"
        return (
            f"Labels by {self.column} {', '.join(shares)} look wrong far more often; "
            f"{others_text}. Their samples are not harder: ask how these labels were made."
        )


def source_columns(samples: SampleSet) -> dict[str, Shaped[np.ndarray, " n"]]:
    """Return columns that may tell who or what gave the labels, as {name: a word per sample}.

    Args:
        samples: a table, or samples with a source.

    Returns:
        The source, then columns of words, flags, dates and whole numbers with 2 to MOST_VALUES
        values; missing ones are a value of their own. Empty where there is none.
    """
    columns: dict[str, Shaped[np.ndarray, " n"]] = {}
    if samples.source is not None:
        columns["source"] = samples.source.astype(str)
    rows = samples.used_rows
    for name in () if rows is None else rows.column_names:
        column = rows[name]  # pyrefly: ignore[unsupported-operation] (there are rows)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_nested(column.type) or len(column.unique()) > MOST_VALUES:
            continue
        values = column.to_pylist()
        if all(value.is_integer() for value in values if isinstance(value, float)):
            columns[name] = np.array([
                "missing" if v is None else str(v).removesuffix(" 00:00:00") for v in values
            ])
    return {name: words for name, words in columns.items() if len(np.unique(words)) > 1}


def checked_sources(
    sources: Any, data: SampleSet | Linearization
) -> dict[str, Shaped[np.ndarray, " n"]]:
    """Return {column: a word per label} of the user's sources; raise unless each has n values."""
    # sources: one column, several by name, or None: those of the samples, of which a Linearization
    # has none.
    if sources is None:
        if isinstance(data, SampleSet):
            return source_columns(data)
        return {}
    n = len(data)
    if isinstance(sources, Mapping):
        columns = sources
    else:
        columns = {"source": sources}
    words = {str(name): np.asarray(values).astype(str) for name, values in columns.items()}
    for name, values in words.items():
        if values.shape != (n,):
            raise SettingError(
                f"sources must be [{n}] names or numbers, one a label, or several of them by name; "
                f"got shape {values.shape} of {name!r}."
            )
    return words


def find_erring_sources(
    log_p: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    columns: Mapping[str, Shaped[np.ndarray, " n"]],
) -> LabelSources | None:
    """Find the column whose sources explain contradicted labels best, and its sources that err.

    Args:
        log_p: calibrated log probabilities of each label, by fits without it.
        labels: given labels, class indices.
        trusted: labels that are known to be right, which say nothing here.
        columns: the source of each label, by the column's name.

    Returns:
        That column; its sources that err have p ≤ FALSE_ALARM / all sources tested in all columns
        (Bonferroni). `share_wrong` is still the share contradicted. None if no source errs, or all.

    Cost: n k operations, and n a column.
    Source: ours; p by the gamma distribution of the same three moments (Pearson 1895, type III),
        since few labels surprise much: of skewness γ, shape a = 4/γ², P(Γ(a) > a + z √a).
    """
    p = log_p.exp()
    open_idx = np.flatnonzero(~trusted.numpy())
    deviation = -log_p + (p * log_p).sum(1, keepdim=True)
    surprise = deviation.gather(1, labels[:, None])[:, 0]
    variance, third_moment = ((p * deviation**power).sum(1) for power in (2, 3))
    is_contradicted = log_p.argmax(1) != labels
    rows = (surprise, variance, third_moment, is_contradicted, 1 - p.amax(1))
    values = torch.stack([row.double() for row in rows]).numpy()[:, open_idx]
    tested = [_test_sources(name, words, open_idx, values) for name, words in columns.items()]
    n_tested = sum(int(sources.errs.sum()) for sources, _ in tested)
    if not n_tested:
        return None
    sources, p_value = min(tested, key=lambda pair: float(pair[1].min()))
    errs = n_tested * p_value <= FALSE_ALARM
    if errs.any() and not errs.all():
        return replace(sources, errs=errs)
    return None


def _test_sources(
    name: str,
    words: Shaped[np.ndarray, " n"],
    open_idx: Int[np.ndarray, " open"],
    values: Float[np.ndarray, "5 open"],
) -> tuple[LabelSources, Float[np.ndarray, " sources"]]:
    """Return the sources, and a p value of each: whether its labels surprise too much.

    values: rows for each open label: its surprise, the variance and third moment of that, whether
    predictions contradict it, and the probability of that. `errs` is set where a source has enough
    labels to be tested; elsewhere p is 1.
    """
    names, code = np.unique(words, return_inverse=True)
    surprise, variance, third_moment, contradicted, expected = (
        np.bincount(code[open_idx], x, len(names)) for x in values
    )
    counts = np.bincount(code[open_idx], minlength=len(names))
    spread = np.sqrt(np.maximum(variance, TINY))
    skewness = np.maximum(third_moment / spread**3, LEAST_SKEWNESS)
    shape = 4 / skewness**2
    p_value = gammaincc(shape, np.maximum(shape + surprise / spread * np.sqrt(shape), 0.0))
    is_tested = np.minimum(counts, len(open_idx) - counts) >= FEWEST_LABELS
    contradicted = contradicted / np.maximum(counts, 1)
    sources = LabelSources(
        column=name,
        values=tuple(names),
        code=code,
        n_labels=counts,
        contradicted=contradicted,
        expected=expected / np.maximum(counts, 1),
        share_wrong=contradicted,
        errs=is_tested,
    )
    return sources, np.where(is_tested, p_value, 1.0)


def fit_sources(
    outputs: Sequence[Float[Tensor, "n k"]],
    labels: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    sources: LabelSources | None,
    start: NoiseFit,
) -> tuple[LabelSources | None, list[NoiseFit], Float[Tensor, " n"]]:
    """Fit a label noise rate per source that errs, and one for all others.

    Args:
        outputs: held-out outputs of each estimator.
        labels: given labels, class indices.
        trusted: labels that are known to be right.
        sources: with those that err; None: none do.
        start: the fit of one rate r, whose calibration this one starts from.

    Returns:
        - the sources with their rates r_g; those that err hardly more often no longer err. None if
          no source is left;
        - the fit in a list, or an empty list;
        - what to add to each label's log odds of being wrong under one rate r, [n], nats:
          ln (r_g / (1 − r_g)) − ln (r / (1 − r)), or 0.

    Cost: ROUNDS of n (k² + estimators² k) operations.
    Source: expectation maximisation as in `likelihood`, with T of one rate a source.
    """
    no_shift = torch.zeros(len(labels), dtype=torch.float64)
    if sources is None:
        return None, [], no_shift
    stacked = torch.stack(list(outputs), 2).double()[:, :, start.weights > 0]
    weights = start.weights[start.weights > 0]
    k = start.log_p.shape[1]
    logits = stacked @ weights
    log_p = start.log_p
    # log_p is the logits and the intercepts, less a constant a row.
    intercepts = (log_p - logits - (log_p - logits)[:, :1]).mean(0)
    group_of = np.where(sources.errs, sources.errs.cumsum(), 0)  # 0: all others
    group = torch.from_numpy(group_of[sources.code])
    is_open = ~trusted
    counts = torch.bincount(group[is_open]).double()
    common_rate = torch.tensor(1 - float(start.transition[0, 0])).double()
    common_rate = common_rate.clamp(NO_RATE, MOST_WRONG)
    rates = common_rate.expand(len(counts))

    def add_noise(log_p: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:  # log P(true and given)
        rate = rates[group][:, None].where(is_open[:, None], 0.0)
        log_wrong = (rate / (k - 1)).log().expand(-1, k)
        return log_p + log_wrong.scatter(1, labels[:, None], torch.log1p(-rate))

    for _ in range(ROUNDS):
        posterior = torch.softmax(add_noise(log_p), 1)
        p_wrong = 1 - posterior.gather(1, labels[:, None])[is_open, 0]
        n_wrong = torch.zeros_like(counts).index_add_(0, group[is_open], p_wrong)
        rates = (n_wrong / (counts + RIGHT_COUNT)).clamp(NO_RATE, MOST_WRONG)
        weights, intercepts, log_p = step_calibration(
            stacked, posterior, log_p, weights, intercepts
        )
    share_wrong = rates.numpy()[group_of]
    threshold = max(rates[0] + MORE_OFTEN, TIMES * rates[0])
    errs = sources.errs & (share_wrong >= float(threshold))
    if not errs.any():
        return None, [], no_shift
    joint = add_noise(log_p)
    log_evidence = torch.logsumexp(joint, 1)
    fit = NoiseFit(
        form="by source",
        log_likelihood=float(log_evidence.sum()),
        log_p=log_p,
        log_posterior=joint - log_evidence[:, None],
        transition=uniform_transition(k, float(rates[group].mean())),
        weights=start.weights,
        cost=int(sources.errs.sum()) * (0.5 + log(len(sources.values))),
    )
    shift = torch.logit(rates)[group] - torch.logit(common_rate)
    return replace(sources, share_wrong=share_wrong, errs=errs), [fit], shift
