"""`datassay explain`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from datassay.collect.settings import check_device_name
from datassay.commands.command import Command
from datassay.commands.inputs import DataInputs, PlanInputs, TrainedInputs, check_weights, number_or
from datassay.rules import one_of
from datassay.score.settings import DEFAULT_TOP, OUTCOMES, PLANNED, TrainedWeights, check_top
from datassay.setting import setting


@dataclass(frozen=True)
class ExplainSettings(TrainedInputs):
    """Settings of the job; the defaults are those of `datassay explain DATA`."""

    queries: str | None = setting(
        None,
        "Samples to explain: a file as DATA is, labels too (default: the validation part, or the "
        "training samples where there is none).",
    )
    weights: tuple[Path, ...] = setting(
        (),
        ".safetensors or state dict of the trained network (weights.pt::ema names one of several); "
        "several times for several seeds or checkpoints, whose effects are averaged; none for "
        "--plan.",
    )
    index: str | None = setting(
        None,
        "Folder or URL that datassay index made of DATA and this network, whose gradients are "
        "read.",
    )
    measure: str = setting(
        "auto",
        "Effect on each query's margin (of the given label), output (of the predicted class) or "
        "loss; auto: the margin of classes, the output of one target, else the loss.",
    )
    curvature: str = setting(
        TrainedWeights.curvature,
        "Of each layer: blocks (exact), ekfac (factored) or auto (exact where it is small); or "
        "whole: of all layers together, for small networks.",
        needs="!index",
    )
    damping: float | str = setting(
        TrainedWeights.damping,
        "With --curvature whole it is absolute, auto 0.01.",
        of="datassay.score.influence.methods:influence.damping",
        read=partial(number_or, word="auto", name="damping"),
        needs="!index",
    )
    top: int = setting(DEFAULT_TOP, "Samples stored per query and direction.")
    precision: str | None = setting(
        None,
        "float32 or float64 (default: float32; with --curvature whole float64).",
        needs="!index",
    )
    command: str = ""

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        if not only_plan:
            check_weights(self.weights)
        check_device_name(self.device)
        check_top(self.top)
        one_of("curvature", self.curvature, (*PLANNED, "whole"))
        one_of("measure", self.measure, ("auto", *OUTCOMES))


COMMAND = Command(
    name="explain",
    common="target queries model weights index measure top plan",
    help="""Explain a trained network's predictions by its training samples.

    Writes one page, effects.parquet (the samples that raised and lowered each query's measure),
    samples.parquet (self-influence, large for wrong labels) and summary.json.

    Examples:
      datassay explain digits --model mlp:width=32 --weights my.safetensors
      datassay explain photos/ --model own.networks:resnet --weights a.pt --weights b.pt
      datassay explain train.csv --target label --weights my.pt --queries new.csv --measure loss
      datassay explain tokens.npz --model my.py:bert --weights bert.safetensors --parameters lora_
      datassay explain mnist/ --model cnn --weights my.safetensors --curvature ekfac --plan
      datassay explain mnist/ --model cnn --weights my.safetensors --index ix --queries new.npz
    """,
    settings=ExplainSettings,
    inputs=(DataInputs, PlanInputs),
    out="explained",
    order=15,
    scores_all=True,
)
