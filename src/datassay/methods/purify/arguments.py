"""Check the arguments of `purify`, and choose what they leave open."""

from dataclasses import replace

import numpy as np

from datassay import rules
from datassay.collect.collection import check_sets
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.methods.purify.settings import BY_CROSS_FIT, BY_LABELS, ORDERS, RIDGE, STOPS, Removal
from datassay.methods.purify.stopping import held_out_threshold
from datassay.optional import coalesce, text_if
from datassay.score.removal_effects import check_pairs_remain
from datassay.score.variance.pair_influence import check_penalties
from datassay.train.fitter import ConvexFitter, Fitter


def check_arguments(train: SampleSet, val: SampleSet | None, settings: Removal) -> None:
    """Raise DataError or SettingError if `purify` cannot run on these samples."""
    check_penalties(coalesce(settings.ridge, RIDGE), settings.damping)
    check_sets(train, val)
    check_pairs_remain(train)
    if (train.x == train.x[:1]).all():
        raise DataError(
            f"inputs must differ; all {len(train)} samples are the same. Check how they were read."
        )
    rules.one_of("order", settings.order, ORDERS)
    rules.one_of("stop", settings.stop, STOPS)
    if settings.stop == "validation" and val is None:
        raise SettingError("stop='validation' needs a validation set; got none. Pass val.")
    threshold = settings.threshold
    if threshold is not None:
        rule = "be a finite number of nats, or None"
        rules.require(np.isfinite(threshold), "threshold", rule, threshold)
    rules.fraction("max_fraction", settings.max_fraction, ends="()")
    for name, minimum in (("step", 1), ("min_per_class", 1), ("beyond", 0)):
        value = getattr(settings, name)
        if value is not None:
            rules.at_least(name, value, minimum)


def resolve_auto(settings: Removal, train: SampleSet, has_val: bool, fit: Fitter) -> Removal:
    """Return settings without "auto" and None; which influence is decided after the first fit.

    Raises:
        SettingError: the order does not suit the model or the task, or the rule the order.
    """
    order = settings.order
    rule = settings.stop
    threshold = settings.threshold
    is_convex = isinstance(fit, ConvexFitter)
    finds_suspects = {  # the orders that do: whether they can be had here
        BY_CROSS_FIT: is_convex and train.is_classification and fit.geometry.kind.has_one_class,
        BY_LABELS: train.is_classification,
    }
    if not finds_suspects.get(order, True):
        linear = text_if(order == BY_CROSS_FIT, " and a linear model under cross-entropy")
        raise SettingError(f"order={order!r} needs classes{linear}; got others. Take order='auto'.")
    preferred = BY_CROSS_FIT if is_convex else BY_LABELS
    if order == "auto" and finds_suspects[preferred]:
        order = preferred
    if rule == "auto" and has_val:
        rule = "validation"
    elif rule == "auto":
        rule = "suspects" if order in finds_suspects else "held_out"
    if rule == "suspects" and order not in finds_suspects:
        orders = "order='label_issues' or 'cross_fit'"
        raise SettingError(f"stop='suspects' belongs to {orders}; got it with {order!r}.")
    if threshold is None:
        threshold = held_out_threshold(train.n_classes, is_convex=is_convex)
    n_steps = 100 if is_convex else 40
    if (order, rule) == (BY_CROSS_FIT, "suspects"):
        n_steps = 10
    step = settings.step or max(1, len(train) // n_steps)
    return replace(settings, order=order, stop=rule, threshold=threshold, step=step)
