"""Inputs that commands share: which samples, and what is corrupted on purpose."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from datassay.collect.settings import Collection
from datassay.data.settings import HELD_OUT, Corruption, Loading
from datassay.errors import SettingError
from datassay.progress import Progress
from datassay.score.settings import Influence
from datassay.setting import setting

if TYPE_CHECKING:
    from datassay.collect.backbone import Backbone
    from datassay.data.samples import SampleSet

MODEL = "auto"
MODEL_HELP = (
    "mlp, mlp:width=1024,depth=2, linear, logistic, cnn, lenet5; features:NAME, such a network "
    "(features:NAME+linear) on embeddings by lite0 (images), minilm (texts), timm:NAME or hf:NAME; "
    "or package.module:factory, installed or else of the current folder; path/file.py:factory is "
    "that file. auto: features:lite0 for photographs and features:minilm for texts where "
    "datassay[features] is installed, else mlp."
)
BLOCK_MODEL_HELP = (
    "logistic or linear, solved exactly; purify trains others anew. features:NAME and auto as for "
    "run, with logistic behind."
)
RIDGE_HELP = "Of a linear model, (ridge/2)‖θ‖² on the mean loss."
DAMPING_HELP = "Added to the Hessian behind V; not to the fits."
SEED_HELP = "Of split, noise, weights, projection and batches."


LOAD = "datassay.data.load:load."
COLUMNS = ("drop", "keep", "categorical", "text")  # options that name several


@dataclass(frozen=True)
class DataInputs:
    """Which samples."""

    data: str | None = setting(
        None,
        "digits, breast_cancer, wine, iris, diabetes, moons, sd2, sd3, routable, or a path: "
        "FORMATS.",
        argument=True,
    )
    data_option: str | None = setting(None, "The same as DATA.", name="data")
    target: str | None = setting(Loading.target, of=f"{LOAD}target")
    ids: str | None = setting(Loading.ids, of=f"{LOAD}ids")
    source: str | None = setting(Loading.source, of=f"{LOAD}source")
    drop: str | None = setting(Loading.drop, "Names between commas.", of=f"{LOAD}drop")
    keep: str | None = setting(Loading.keep, "Names between commas.", of=f"{LOAD}keep")
    categorical: str | None = setting(
        Loading.categorical, "Names between commas.", of=f"{LOAD}categorical"
    )
    text: str | None = setting(Loading.text, "Names between commas.", of=f"{LOAD}text")
    log_target: bool = setting(
        Loading.log_target, "Predict the logarithm of the target, for one that is skewed."
    )
    task: str | None = setting(Loading.task, "classification or regression (default: by y).")
    val_fraction: float | None = setting(
        Loading.val_fraction,
        "Split off where there is no validation part; 0: nothing, so that every sample is scored "
        f"(default: {HELD_OUT}, of a table that is scored 0).",
    )
    seed: int = setting(Loading.seed, SEED_HELP)
    held_out: tuple[str, ...] | None = None  # ids, of a run beside an earlier one

    @property
    def named(self) -> str:
        """The data, named once."""
        if (self.data is None) == (self.data_option is None):
            raise SettingError("DATA must be given once, as an argument or as --data; see --help.")
        return str(self.data_option if self.data is None else self.data)


@dataclass(frozen=True)
class TrainedInputs:
    """A trained network, and which of its weights effects are by."""

    model: str = setting(MODEL, MODEL_HELP)
    loss: str = setting(
        Influence.loss,
        "Of the training: cross_entropy, mse, bce, next_token, or auto: by the task.",
    )
    parameters: str | None = setting(
        None, "Only weights with this in their names, or that fit it where it has a *."
    )
    device: str = setting(Collection.device, "Where gradients are computed: cpu, cuda or cuda:1.")
    seed: int = setting(Collection.seed, SEED_HELP)


@dataclass(frozen=True)
class NoiseInputs:
    """Labels flipped on purpose."""

    noise: float = setting(0.0, "Fraction of training labels to flip, truth kept.")
    noise_kind: str = setting(Corruption.kind, "uniform, or pair (each class to the next).")


@dataclass(frozen=True)
class PlanInputs:
    """Whether to run at all."""

    plan: bool = setting(False, "Show sizes and seconds, then exit.")


def asked_backbone(
    given: Mapping[str, Any], store: str | None, progress: Progress
) -> Backbone | None:
    """The frozen encoder that the network's name asks for."""
    from datassay.models.names import asked_encoder

    model = given.get("model")  # a fitted polynomial's is a path
    if not isinstance(model, str) or not (name := asked_encoder(model)):
        return None
    from datassay.collect.backbone import Backbone

    device = given.get("device", Backbone.device)
    return Backbone(name, store, device, progress, only_plan=bool(given.get("plan")))


def load_sets(
    inputs: DataInputs, encode: Backbone | None = None, val: str | None = None
) -> tuple[SampleSet, SampleSet | None]:
    """(train, val) as the inputs name them, or val from a file; raises what `load` raises."""
    from datassay.data.load import load

    given = {f.name: getattr(inputs, f.name) for f in fields(inputs)}
    given = {name: one for name, one in given.items() if name not in {"data", "data_option"}}
    for (
        name
    ) in COLUMNS:  # names between commas; one that holds a comma stands in quotes, as in .csv
        line = next(csv.reader([given[name] or ""], skipinitialspace=True), [])
        given[name] = [column.strip() for column in line]
    return load(inputs.named, encode=encode, val=val, **given)


def with_noise(train: SampleSet, inputs: NoiseInputs, seed: int) -> SampleSet:
    """The samples with labels flipped where that is asked for; else the same set."""
    from datassay.data.corrupt.label_noise import add_label_noise

    if inputs.noise_kind not in {"uniform", "pair"}:
        raise SettingError(f"noise-kind must be 'uniform' or 'pair'; got {inputs.noise_kind!r}.")
    if inputs.noise == 0:
        return train
    return add_label_noise(train, inputs.noise, kind=inputs.noise_kind, seed=seed)


def number_or(text: str, word: str, name: str) -> float | str:
    """A number, or the one word that is allowed; anything else is a SettingError."""
    if text == word:
        return word
    try:
        return float(text)
    except ValueError as error:
        raise SettingError(f"{name} must be a number or {word!r}; got {text!r}.") from error


def whole_auto_or_none(
    text: str, name: str, kind: str = "a whole number", *, auto: bool = True
) -> Any:
    """A whole number, "auto" where it may be, or None for "none"; else a SettingError."""
    if text == "none" or (auto and text == "auto"):
        return None if text == "none" else "auto"
    if not text.isdecimal() or len(text) > 15:
        words = "'auto', 'none'" if auto else "'none'"
        raise SettingError(f"{name} must be {words} or {kind}; got {text[:60]!r}.")
    return int(text)


def gigabytes(text: str) -> float:
    """Bytes from gigabytes; a SettingError where the text is no number."""
    try:
        return 1e9 * float(text)
    except ValueError as error:
        raise SettingError(f"memory must be a number of gigabytes; got {text!r}.") from error
