"""The job of `datassay explain`: networks at their trained weights, effects, predictions."""

import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from rich.console import RenderableType
from torch import Tensor, nn

from datassay.collect.curvature.output_loss import check_n_outputs, predicted_class, sample_scores
from datassay.collect.gradients.batches import outputs_of
from datassay.collect.jacobian.inputs import check_device, network_inputs, takes_integers
from datassay.collect.loss import loss_named
from datassay.commands.explain.command import ExplainSettings
from datassay.commands.explain.indexed import open_with_samples
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.frame import Findings
from datassay.commands.terminal import block_table
from datassay.commands.trained import INITIAL, loss_of, networks, start_seconds
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.names import full_name
from datassay.models.user_code import user_code
from datassay.models.weights import weights_choice, weights_source
from datassay.optional import coalesce, text_if
from datassay.progress import Progress, silent
from datassay.report.predictions import Predictions
from datassay.report.wording import count, number, percent
from datassay.results import result
from datassay.score.effects import Attribution
from datassay.score.influence.given import DOUBT, given_sets
from datassay.score.influence.methods import influence
from datassay.score.influence.plan import influence_plan
from datassay.score.settings import PLANNED

BELONG = (
    "Check that --model, --weights and DATA belong together: the scale of the inputs, the order of "
    "the classes, which samples it was trained on."
)
BATCH = 256  # samples a pass, where only predictions are asked for
# With so many values of all gradients the work is planned first, which takes a second; if it takes
# so many seconds, a warning says so.
MANY_VALUES, LONG_SECONDS = 1e9, 60


@result
class ExplainFindings(Findings):
    """Effects of n training samples on m queries, at trained weights."""

    # the n training samples; of an index the first of them, those that DATA shows
    samples: SampleSet
    queries: SampleSet  # m samples; the training samples themselves where there are no others
    kind: str  # "validation", "training" or "queried": which samples the queries are
    attribution: Attribution  # the effects
    loss: str  # name of the loss that was trained with
    # [n, k], what is predicted of the training samples: probabilities of classes, or targets; None:
    # several tokens per sample
    fitted: Float[np.ndarray, "n k"] | None
    predicted: Float[np.ndarray, "m k"] | None  # [m, k], of the queries; likewise

    @property
    def predictions(self) -> Predictions:
        """The predictions of the queries and the effects on them, for the picker."""
        is_classification = self.samples.is_classification
        is_logit = is_classification and loss_named(self.loss).has_one_class
        return Predictions(
            self.samples, self.queries, self.kind, self.predicted, self.attribution, is_logit,
            self.contradicted, "predicted otherwise",
        )  # fmt: skip

    @property
    def contradicted(self) -> Bool[np.ndarray, " n"] | None:
        """Which training samples are predicted as another class; None where that is not known."""
        if self.fitted is None or not self.samples.is_classification:
            return None
        return predicted_class(self.fitted) != self.samples.y

    @property
    def ids(self) -> np.ndarray:
        """[n] ids of the training samples, with those of an index that DATA lacks."""
        return self.attribution.ids

    @property
    def self_influence(self) -> Float[np.ndarray, " n"]:
        """The decrease of each sample's own loss by its presence; NaN where it is not known."""
        values = self.attribution.self_influence
        if values is None:
            return np.full(len(self.ids), np.nan)
        return values

    @property
    def first(self) -> Int[np.ndarray, " n"]:
        """Positions of all samples, largest self-influence first."""
        return np.argsort(-self.self_influence, kind="stable")

    @property
    def harm(self) -> Float[np.ndarray, " n"] | None:
        """The decrease of all margins, or increase of all losses, by each sample; else None."""
        sign = {"margin": -1.0, "loss": 1.0}.get(self.attribution.measure)
        if sign is None:
            return None
        return sign * self.attribution.total

    @property
    def n_wrong(self) -> int | None:
        """The number of queries whose predicted class is wrong; None without classes."""
        if self.predicted is None or not self.queries.is_classification:
            return None
        return int((predicted_class(self.predicted) != self.queries.y).sum())


def run(
    train: SampleSet, val: SampleSet | None, settings: ExplainSettings, progress: Progress = silent
) -> ExplainFindings:
    """Compute everything that `datassay explain` shows, without writing anything."""
    started = time.perf_counter()
    check_settings(settings)
    settings = replace(settings, model=full_name(settings.model, train))
    facts = data_facts(train, val) | ({"Queries": settings.queries} if settings.queries else {})
    models = networks(settings.model, settings.weights, train, settings.seed)
    opened = None
    if settings.index is not None:
        opened = open_with_samples(settings, models[0], train, val)
    if opened is not None:
        train = opened.samples
    # Labels as the network's outputs have them.
    train, val = given_sets(models[0], train, val, settings.loss)  # pyrefly: ignore[bad-assignment] (samples stay samples)
    if opened is None:
        loss = loss_of(settings.loss, train)
    else:
        loss = opened.index.loss.name
    measure = measure_of(settings.measure, train)
    fitted = None
    has_values = not loss_named(loss).is_of_tokens
    if has_values:
        fitted = predictions(models, train, loss)
    predicted = fitted
    if val is not None and has_values:
        predicted = predictions(models, val, loss)
    if opened is None:
        _warn_if_long(models, train, val, settings)
        attribution = influence(
            models, train, val, loss=loss, measure=measure,
            progress=progress, **_options(settings),
        )  # fmt: skip
    else:
        attribution = opened.answer(val, measure, settings.top, progress)
    n_weights = sum(p.numel() for p in models[0].parameters())
    subset = text_if(settings.parameters, f", those with {settings.parameters} explained")
    files = "; ".join(weights_source(path, models[0]) for path in settings.weights)
    facts |= model_facts(settings.model, f"{settings.model}, {n_weights:,} weights{subset}")
    facts |= {"Weights": files} | ({} if opened is None else opened.facts)
    facts |= {"Loss": loss.replace("_", " "), "Measure": measure, "Method": attribution.method}
    if fitted is not None:
        fit = _measure_fit(fitted, train)
        score = f"{percent(round(fit, 3))} of the training samples right"
        facts["Fit"] = (
            score if train.is_classification else f"R² {number(fit)} on the training samples"
        )
    facts |= closing_facts(started, settings.seed, settings.command)
    index_warnings = () if opened is None else opened.warnings
    fit_warnings = _list_warnings(fitted, train, val)
    # A warning of a bad fit to all samples replaces the method's, of a bad fit to some.
    is_bad_fit = any(BELONG in warning for warning in fit_warnings)
    method_warnings = [w for w in attribution.warnings if not (is_bad_fit and w.startswith(DOUBT))]
    choices = [w for path in settings.weights for w in weights_choice(path, models[0])]
    kind = "training"
    if val is not None:
        kind = "queried" if settings.queries else "validation"
    return ExplainFindings(
        samples=train,
        queries=coalesce(val, train),
        kind=kind,
        attribution=attribution,
        loss=loss,
        fitted=fitted,
        predicted=predicted,
        facts=facts,
        warnings=(*choices, *index_warnings, *method_warnings, *fit_warnings),
    )


def _options(settings: ExplainSettings) -> dict[str, Any]:
    """Return the arguments that `influence` and its plan share, but for the loss."""
    names = ("curvature", "damping", "parameters", "top", "precision", "device", "seed")
    return {name: getattr(settings, name) for name in names}


def plan_lines(
    train: SampleSet, val: SampleSet | None, settings: ExplainSettings
) -> list[RenderableType]:
    """Return what `run` would compute: a table, the largest blocks of many, and sentences."""
    loading = start_seconds(train)
    settings = replace(settings, model=full_name(settings.model, train))
    models = networks(settings.model, settings.weights, train, settings.seed)
    loss = loss_of(settings.loss, train)
    plan = influence_plan(models, train, val, loss=loss, **_options(settings))
    columns = {
        "curvature": plan.kind.tolist(),
        "memory": [f"{size / 1e6:,.1f} MB" for size in plan.bytes],
        "operations": [f"{flops:.1e}" for flops in plan.flops],
    }
    table = block_table(plan.block, plan.size, columns)
    fits = "fits" if plan.fits else "does NOT fit"
    return [
        *table,
        f"{count(plan.n_queries, 'query', 'queries')} by {plan.n_samples:,} training samples, "
        f"{count(plan.n_models, 'network')}: {plan.passes:,} passes of a sample.",
        f"About {loading + plan.seconds:.0f} s, {loading:.0f} s of them to start and "
        f"to read the data; {plan.peak_bytes / 1e9:.2f} GB besides the program, which "
        f"{fits} in the {plan.free_bytes / 1e9:.1f} GB free. Nothing was run.",
        *([] if settings.weights else [INITIAL.format("")]),
    ]


def check_settings(settings: ExplainSettings) -> None:
    """Check the settings before anything is loaded; a plan needs no weights."""
    if settings.index is not None and len(settings.weights) > 1:
        raise SettingError(
            "index answers for the one network that it was made with; got "
            f"{len(settings.weights)} --weights. Give one, or leave out --index to average several."
        )
    check_device(settings.device)


def measure_of(measure: str, train: SampleSet) -> str:
    """Return the measure, for "auto" by the task; raise if it does not suit the task."""
    is_classification = train.is_classification
    has_one_target = train.y[:1].size == 1
    if measure == "auto":
        if is_classification:
            return "margin"
        if has_one_target:
            return "output"
        return "loss"
    needs_one_target = measure == "output" and not has_one_target
    if not is_classification and (measure == "margin" or needs_one_target):
        rule = "output needs one target"
        if measure == "margin":
            rule = "margin needs classes"
        raise SettingError(f"measure {rule}; y is {list(train.y.shape)} numbers. Take loss.")
    return measure


def predictions(models: list[nn.Module], samples: SampleSet, loss: str) -> Float[np.ndarray, "n k"]:
    """Return predictions by the networks' mean outputs: probabilities or targets, [n, k]."""
    outputs = torch.stack([_compute_outputs(model, samples) for model in models]).mean(0)
    check_n_outputs(samples, outputs.shape[1])
    if not outputs.isfinite().all():
        raise ModelError(
            "the network's outputs must be finite; got NaN or infinity. Check the weights and the "
            "scale of the inputs."
        )
    return loss_named(loss).predict(outputs).numpy()


def _compute_outputs(model: nn.Module, samples: SampleSet) -> Float[Tensor, "n k"]:
    """Return a network's outputs, [n, k] float64; raise if it cannot run on the samples."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    takes_tokens = takes_integers(model, samples.x[:1])
    parts = []
    shape = ", ".join(["n", *map(str, samples.input_shape)])
    message = (
        f"the model must run on samples [{shape}]; that raised {{}} Check --model against DATA."
    )
    for start in range(0, len(samples), BATCH):
        x = network_inputs(samples.x[start : start + BATCH], model, dtype, as_integers=takes_tokens)
        with user_code(message.format), torch.no_grad():
            parts.append(outputs_of(model, x))
    outputs = torch.cat(parts).double().cpu()
    if outputs.ndim != 2:
        raise ModelError(
            f"the model must give [n, k], one row per sample; got {list(outputs.shape)}. Of tokens "
            "only --loss next_token is explained."
        )
    return outputs


def _warn_if_long(
    models: list[nn.Module], train: SampleSet, val: SampleSet | None, settings: ExplainSettings
) -> None:
    """Log a warning if computing the effects will take a minute or more."""
    size = sum(p.numel() for p in models[0].parameters())
    if len(train) * size < MANY_VALUES or settings.curvature not in PLANNED:
        return
    loss = loss_of(settings.loss, train)
    plan = influence_plan(models, train, val, loss=loss, **_options(settings))
    if plan.seconds > LONG_SECONDS:
        logging.getLogger(__name__).warning(
            "this takes about %.0f s. Shorter: fewer queries or samples, --curvature ekfac, or "
            "some of the weights: --parameters; --plan shows what each block takes.",
            plan.seconds,
        )


def _measure_fit(fitted: np.ndarray, samples: SampleSet) -> float:
    """Return how well the networks fit their training samples: accuracy, or R²."""
    return float(sample_scores(torch.from_numpy(fitted), samples, boundary=0.5).mean())


def _list_warnings(
    fitted: np.ndarray | None, train: SampleSet, val: SampleSet | None
) -> tuple[str, ...]:
    """Return warnings: the model fits no better than chance; the queries were split off."""
    warnings = []
    fit = None
    if fitted is not None:
        fit = _measure_fit(fitted, train)
    if fit is not None and train.is_classification:
        majority = float(np.bincount(train.y).max() / len(train))
        if fit <= majority + 2 * (majority * (1 - majority) / len(train)) ** 0.5:
            warnings.append(
                f"the network gets {percent(round(fit, 3))} of its training samples right, hardly "
                f"more than the most frequent class alone ({percent(round(majority, 3))}). {BELONG}"
            )
    elif fit is not None and fit <= 0:
        warnings.append(
            f"the network predicts its training samples no better than their mean (R² "
            f"{number(fit)}). {BELONG}"
        )
    if val is not None and val.split_off:
        warnings.append(
            f"{count(len(val), 'sample')} of {train.name} are held out as queries. If the "
            "network was trained on them too, give other queries by --queries, or explain the "
            "training samples by each other with --val-fraction 0."
        )
    return tuple(warnings)
