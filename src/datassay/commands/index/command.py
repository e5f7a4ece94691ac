"""`datassay index`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datassay.collect.settings import Computing, check_device_name, check_engine
from datassay.commands.command import Command, settings_from
from datassay.commands.inputs import DataInputs, PlanInputs, TrainedInputs, check_weights, number_or
from datassay.commands.shell import err_console, out_console
from datassay.optional import drop_none
from datassay.score.settings import Indexing, TrainedWeights, Training
from datassay.setting import setting

INDEX = "datassay.score.index.build:index."


@dataclass(frozen=True)
class IndexSettings(TrainedInputs):
    """Settings of the job; the defaults are those of `datassay index DATA`."""

    append: str | None = setting(
        None,
        "Add these samples, a file as DATA is, to the index that --out names; nothing that it has "
        "is computed anew.",
    )
    weights: Path | None = setting(
        None,
        ".safetensors or state dict of the trained network (weights.pt::ema names one of several); "
        "not needed for --plan.",
    )
    curvature: str = setting(
        TrainedWeights.curvature,
        "Of each layer: blocks (exact), ekfac (factored) or auto (exact where it is small).",
        needs="!append",
    )
    damping: float | str = setting(
        TrainedWeights.damping,
        of="datassay.score.influence.methods:influence.damping",
        read=partial(number_or, word="auto", name="damping"),
        needs="!append",
    )
    temperature: float | str = setting(
        TrainedWeights.temperature,
        "That logits are divided by in the loss, or auto: 2 of classes, 1 of next tokens and of "
        "self-influence.",
        read=partial(number_or, word="auto", name="temperature"),
        needs="!append",
    )
    weight_decay: float = setting(Training.weight_decay, of=f"{INDEX}weight_decay", needs="!append")
    bytes_per_sample: int = setting(
        Indexing.bytes_per_sample, of=f"{INDEX}bytes_per_sample", needs="!append"
    )
    precision: str = setting(Indexing.gradient_precision, of=f"{INDEX}precision", needs="!append")
    engine: str = setting(
        Computing.engine, "Where chunks are computed: in_process, processes or ray; same numbers."
    )
    address: str | None = setting(
        Computing.address, "Of a running Ray cluster (default: one of its own, here)."
    )
    workers: int | None = setting(
        Computing.workers, "Of processes, or of a Ray started here (default: by cores)."
    )
    location: str = setting(
        "index",
        "Folder or URL of the index, s3://bucket/index too; an interrupted one is continued.",
        name="out",
    )
    command: str = ""  # as it was typed

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        if not only_plan:
            check_weights(tuple(drop_none(self.weights)))
        check_device_name(self.device)
        check_engine(self.engine, self.workers, self.address)


class _Index(Command):
    """A command that writes an index, and no page; `--out` may be a URL."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Load the samples, compute the index and print its figures; or print the plan."""
        self.check_first({**user_input, "queries": user_input["append"]})
        from datassay.commands.terminal import ProgressDisplay  # slow to import, as the job is

        settings = settings_from(self.settings, user_input)
        job = self.module("job")
        job.check_settings(settings)
        train, val = self.loaded({**user_input, "queries": settings.append})
        if user_input["plan"]:
            out_console.print(*job.plan_lines(train, settings), sep="\n")
            return
        with ProgressDisplay(err_console) as progress:
            built = job.run(train, val, settings, progress)
        out_console.print(*job.answer_lines(built, settings), sep="\n", soft_wrap=True)


COMMAND = _Index(
    name="index",
    common="data target append model weights curvature parameters location plan",
    help="""Compute the training side of `explain` once, and store it for later queries.

    Keeps each training sample's gradient in few bytes, with the curvature, the ids and digests of
    the network, its code and its loss. The same command goes on where it was interrupted.

    Examples:
      datassay index train.csv --target label --model my.py:network --weights my.pt --out ix
      datassay explain train.csv --target label --model my.py:network --weights my.pt --index ix
      --queries new.csv
      datassay index train.csv --target label --model my.py:network --weights my.pt --out ix
      --append more.csv
      datassay index mnist/ --model cnn --weights my.safetensors --out s3://bucket/ix
      datassay index mnist/ --model cnn --weights my.safetensors --plan
    """,
    settings=IndexSettings,
    inputs=(DataInputs, PlanInputs),
    out="index",
    order=14,
    scores_all=True,
    has_out=False,
)
