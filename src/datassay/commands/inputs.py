"""Inputs that commands share: which samples, and what is corrupted on purpose."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datassay.collect.settings import LOSSES, Collection
from datassay.data.settings import HELD_OUT, Corruption, Loading
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.progress import Progress
from datassay.rules import in_interval, one_of
from datassay.score.settings import Influence
from datassay.setting import setting

if TYPE_CHECKING:
    import numpy as np

    from datassay.collect.backbone import Backbone
    from datassay.data.samples import SampleSet
    from datassay.data.tables.sources import Glance

MODEL = "auto"
MODEL_HELP = (
    "The model that learns the data: auto, mlp, linear, logistic, cnn, lenet5, features:NAME "
    "(embeddings), or your own as package.module:factory or path/file.py:factory. "
    "The size of a network is given as in mlp:width=1024,depth=2. features:NAME puts a network "
    "(features:NAME+linear a linear one) on embeddings by lite0 (images), minilm (texts), "
    "timm:NAME or hf:NAME. With auto it is features:lite0 for photographs and features:minilm for "
    "texts where these are installed, else mlp. Own code is that installed, or else of the current "
    "folder."
)
BLOCK_MODEL_HELP = (
    "logistic or linear, solved exactly. features:NAME and auto as for run, with logistic behind."
)
RIDGE_HELP = "Ridge of a linear model: (ridge/2)‖θ‖² is added to the mean loss."
DAMPING_HELP = "Damping added to the Hessian that influence is computed by; not to the fits."
SEED_HELP = "Seed of the split, noise, weights, projection and batches."


LOAD = "datassay.data.load:load."
COLUMNS = ("drop", "keep", "categorical", "text")  # options that name several


@dataclass(frozen=True)
class DataInputs:
    """Options that say which samples are read, and how."""

    data: str | None = setting(
        None,
        "A built-in data set (digits, wine, …) or a path: a table, .npz arrays, or a folder of "
        "images by class. Built in: digits, breast_cancer, wine, iris, diabetes, moons, sd2, sd3, "
        "routable. Paths: FORMATS.",
        argument=True,
    )
    data_option: str | None = setting(None, "DATA, given as an option.", name="data")
    target: str | None = setting(Loading.target, of=f"{LOAD}target")
    ids: str | None = setting(
        Loading.ids, "Without it one whose values name the rows, if any does.", of=f"{LOAD}ids"
    )
    source: str | None = setting(Loading.source, of=f"{LOAD}source")
    trusted: str | None = setting(
        Loading.trusted, "Or a file with their ids, one a line.", of=f"{LOAD}trusted"
    )
    groups: str | None = setting(Loading.groups, of=f"{LOAD}groups")
    time: str | None = setting(Loading.time, of=f"{LOAD}time")
    drop: str | None = setting(Loading.drop, "Names between commas.", of=f"{LOAD}drop")
    keep: str | None = setting(Loading.keep, "Names between commas.", of=f"{LOAD}keep")
    categorical: str | None = setting(
        Loading.categorical, "Names between commas.", of=f"{LOAD}categorical"
    )
    text: str | None = setting(Loading.text, "Names between commas.", of=f"{LOAD}text")
    log_target: bool = setting(
        Loading.log_target, "Predict the logarithm of the target, for one that is skewed."
    )
    task: str | None = setting(
        Loading.task, "classification or regression (default: by the target's values)."
    )
    val_fraction: float | None = setting(
        Loading.val_fraction,
        "Share of the samples to hold out where the data have no validation part, in [0, 1); 0 "
        f"scores every sample (default: {HELD_OUT}; 0 where every row of a table can be scored).",
        needs="!before !queries !append",
    )
    seed: int = setting(Loading.seed, SEED_HELP)
    held_out: tuple[str, ...] | None = None  # ids, of a run that is compared with an earlier one

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `load`."""
        settings = {
            f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("data")
        }
        for name in COLUMNS:  # between commas; one that holds a comma stands in quotes, as in .csv
            line = next(csv.reader([settings[name] or ""], skipinitialspace=True), [])
            settings[name] = [column.strip() for column in line]
        settings["trusted"] = None
        if not self.trusted_file:
            settings["trusted"] = self.trusted
        return settings

    @property
    def trusted_file(self) -> Path | None:
        """The file of ids with trusted labels; None where a column names them, or nothing."""
        path = None
        if self.trusted is not None:
            path = Path(self.trusted).expanduser()
        if path is not None and path.is_file():
            return path
        return None

    @property
    def named(self) -> str:
        """The data's name or path; raises unless exactly one of DATA and --data is given."""
        if (self.data is None) == (self.data_option is None):
            raise SettingError(
                "DATA must be given once, as an argument or as --data: a file or a built-in name, "
                "as in datassay run digits. See --help."
            )
        return str(coalesce(self.data, self.data_option))


@dataclass(frozen=True)
class TrainedInputs:
    """Options of a trained network, and of the weights that effects are computed by."""

    model: str = setting(MODEL, MODEL_HELP)
    loss: str = setting(
        Influence.loss,
        "Loss that it was trained with: cross_entropy, mse, bce, next_token, or auto, by the task.",
        rule=partial(one_of, allowed=("auto", *LOSSES)),
        needs="!index !append",
    )
    parameters: str | None = setting(
        None,
        "Count only weights with this text in their names, or that match it where it holds a * "
        "(default: all).",
        needs="!index !append",
    )
    device: str = setting(Collection.device, "Where gradients are computed: cpu, cuda or cuda:1.")
    seed: int = setting(Collection.seed, SEED_HELP)


def check_file(name: str, path: Path) -> None:
    """Raise if a file does not exist; a name behind :: is a part of the file."""
    if not Path(str(path).partition("::")[0]).expanduser().exists():
        raise SettingError(f"{name} must name an existing file; got {path}. Check the spelling.")


def check_weights(weights: tuple[Path, ...]) -> None:
    """Raise if no file of weights is named, or one does not exist."""
    for path in weights:
        check_file("weights", path)
    if not weights:
        raise SettingError(
            "weights must name the file of the trained network (.safetensors or a state dict); "
            "none is given. Give --weights my.safetensors, or let datassay run train networks "
            "itself, by --attribution-at trained."
        )


@dataclass(frozen=True)
class NoiseInputs:
    """Options of labels that are flipped on purpose."""

    noise: float = setting(
        0.0,
        "Share of the training labels to flip on purpose, in [0, 1]; the truth is kept.",
        python="rate",
        needs="!before",
    )
    noise_kind: str = setting(
        Corruption.kind,
        "How they are flipped: uniform (to any other class), or pair (each class to the next).",
        needs="noise",
    )


@dataclass(frozen=True)
class PlanInputs:
    """The option that prints a plan instead of running."""

    plan: bool = setting(
        False, "Print the expected sizes, memory and seconds, and stop.", needs="!index !append"
    )


def asked_backbone(
    options: Mapping[str, Any], store: str | None, progress: Progress
) -> "Backbone | None":
    """Return the frozen encoder that `--model features:NAME` asks for; None without one."""
    from datassay.models.names import asked_encoder

    model = options.get("model")
    if not isinstance(model, str):  # none, or the path of a fitted polynomial
        return None
    name = asked_encoder(model)
    if not name:
        return None
    from datassay.collect.backbone import Backbone

    device = options.get("device", Backbone.device)
    return Backbone(name, store, device, progress, only_plan=bool(options.get("plan")))


def load_sets(
    inputs: DataInputs, encode: "Backbone | None" = None, val: str | None = None
) -> "tuple[SampleSet, SampleSet | None]":
    """Load (train, val) as the inputs name them, val perhaps from a file."""
    from datassay.data.load import load

    train, held_out = load(inputs.named, encode=encode, val=val, **inputs.options)
    path = inputs.trusted_file
    if path is not None:
        train = replace(train, trusted=_read_trusted(path, train.ids))
    return train, held_out


def _read_trusted(path: Path, ids: "np.ndarray") -> "np.ndarray":
    """Return [n] bool, True where a file names the id: one a line, in .csv the first column."""
    import numpy as np  # slow to import

    from datassay.data.source import reading

    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        trusted_ids = {line[0].strip() for line in csv.reader(file) if line} - {"", "id"}
    is_named = np.isin(ids.astype(str), list(trusted_ids))
    if is_named.sum() < len(trusted_ids) or is_named.all() or not trusted_ids:
        raise SettingError(
            f"trusted must name some of the samples by their ids, one a line, and leave others; "
            f"{path} names {len(trusted_ids):,}, of which {is_named.sum():,} of the "
            f"{len(is_named):,} samples are. Name the id column with --ids."
        )
    return is_named


def check_inputs(
    options: Mapping[str, Any], inputs: DataInputs, noise: NoiseInputs
) -> "Glance | None":
    """Raise if paths, names or settings are invalid, before anything heavy is imported.

    Returns:
        What a small table holds, as `check_named` sees it; None for other data.

    Raises:
        DatassayError: a path, a name or a setting is wrong.
    """
    from datassay.data.load import BUILTINS, check_named, existing_format
    from datassay.models.known import check_known

    one_of("noise_kind", noise.noise_kind, ("uniform", "pair"))
    in_interval("noise", noise.noise, 0, 1)
    model = options.get("model")
    if isinstance(model, str):
        check_known(model)
    glance = None
    if not options.get("before"):  # after a review the earlier run names columns
        glance = check_named(inputs.named, **inputs.options)
    queries = options.get("queries")
    if queries and queries not in BUILTINS:
        existing_format(queries)
    return glance


def with_noise(train: "SampleSet", inputs: NoiseInputs, seed: int) -> "SampleSet":
    """Return samples with a share `noise` of labels flipped at random; the same set if 0."""
    from datassay.data.corrupt.label_noise import add_label_noise

    one_of("noise_kind", inputs.noise_kind, ("uniform", "pair"))
    if inputs.noise == 0:
        return train
    return add_label_noise(train, inputs.noise, kind=inputs.noise_kind, seed=seed)


def number_or(text: str, word: str, name: str) -> float | str:
    """Return a text as a number, or unchanged if it is `word`; else raise SettingError."""
    if text == word:
        return word
    try:
        return float(text)
    except ValueError as error:
        raise SettingError(f"{name} must be a number or {word!r}; got {text!r}.") from error


def whole_auto_or_none(
    text: str, name: str, kind: str = "a whole number", *, allows_auto: bool = True
) -> Any:
    """Return a text as a whole number, "auto" where allowed, or None for "none"."""
    if text == "none":
        return None
    if allows_auto and text == "auto":
        return text
    if not text.isdecimal() or len(text) > 15:
        words = "'auto', 'none'" if allows_auto else "'none'"
        raise SettingError(f"{name} must be {words} or {kind}; got {text[:60]!r}.")
    return int(text)


def gigabytes(text: str) -> float:
    """Return the number of bytes in a text of gigabytes; raise SettingError if no number."""
    try:
        return 1e9 * float(text)
    except ValueError as error:
        raise SettingError(f"memory must be a number of gigabytes; got {text!r}.") from error
