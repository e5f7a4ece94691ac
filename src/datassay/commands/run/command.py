"""`datassay run`, `score` and `summarize`."""

import logging
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from datassay.commands.command import PAGE, Command, settings_from
from datassay.commands.inputs import (
    DataInputs,
    NoiseInputs,
    PlanInputs,
    asked_backbone,
    load_sets,
    with_noise,
)
from datassay.commands.run.gate.conditions import MEANINGS
from datassay.commands.run.gate.settings import CheckSettings
from datassay.commands.run.settings import (
    AdversarialInputs,
    KeepSettings,
    RunSettings,
    ScoreSettings,
    TrainingSettings,
)
from datassay.commands.shell import err_console, out_console, out_stream

if TYPE_CHECKING:
    from datassay.commands.run.findings import Findings
    from datassay.report.page import Page
    from datassay.store.outputs import Part


# Exit statuses of `check`; 2 is a mistake of use.
CONDITION_FAILED, INCONCLUSIVE = 3, 4


class _Run(Command):
    """A run; inputs can be adversarial, and it can be compared with a run before a review."""

    def epilog(self) -> str:
        """Return the scores, with their columns, and the actions that other packages add."""
        from datassay.plugins import plugin_names, plugins

        lines = []  # nothing heavy is imported for help where nothing is added
        if plugin_names("scores"):
            from datassay.score.registry import further_scores

            lines += ["Scores that installed packages add:"]
            lines += [f"{s.name}: {s.help} {s.columns}".strip() for s in further_scores()]
        names = plugin_names("actions")
        if names:
            kinds = plugins("actions")
            lines += ["Actions that installed packages add:"]
            lines += [f"{kinds[name].name}: {kinds[name].help}" for name in names]
        return "\n\n".join(lines)

    def arguments(self, user_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return samples, origin, and where asked for the earlier run and adversarial inputs."""
        from datassay.commands.finished import origin_of, with_unscored
        from datassay.commands.terminal import ProgressDisplay

        inputs = settings_from(DataInputs, user_input)
        noise = settings_from(NoiseInputs, user_input)
        if user_input.get("before"):
            arguments, inputs = self._load_after_review(user_input, inputs)
        else:
            train, val = self.loaded(user_input, user_input.get("store"))
            if user_input["val_fraction"] is None:
                train = with_unscored(train, val)
            arguments = {"train": with_noise(train, noise, user_input["seed"]), "val": val}
        # Before a model is built, whose code may change the current folder.
        arguments["origin"] = origin_of(inputs, noise, arguments["train"])
        if user_input.get("plan"):
            return arguments
        from datassay.commands.run.job import with_adversarial
        from datassay.commands.run.steps.plan import long_wait

        settings = settings_from(self.settings, user_input)
        wait = long_wait(arguments["train"], arguments["val"], settings)
        if wait:
            logging.getLogger(__name__).warning(wait)
        share = user_input.get("adversarial")
        if share:
            # The network that these inputs fool learns the labels as they were.
            with ProgressDisplay(err_console) as progress:
                fooled = with_adversarial(train, settings, share, user_input["epsilon"], progress)  # pyrefly: ignore[unbound-name] (not with before)
            arguments["train"] = replace(arguments["train"], x=fooled.samples.x)
            arguments["adversarial"] = fooled
        return arguments

    def further_arguments(self, base: Path, out: Path, *, overwrite: bool) -> dict[str, Any]:
        """Return the callback that writes the scores' page before anything is retrained."""
        from datassay.store.folders import read_digests

        def write_scores(findings: "Findings") -> None:
            if PAGE in read_digests(base / out):  # kept by a reader, also where this run stops
                message = f"{out / PAGE} shows the run before until this one ends"
                return err_console.print(f"{message}; comparing actions …", soft_wrap=True)
            self.write(findings, base / out, overwrite=overwrite)
            err_console.print(f"Scores: {out / PAGE}; comparing actions …", soft_wrap=True)

        return {"first": write_scores}

    def _load_after_review(
        self, user_input: Mapping[str, Any], typed: DataInputs
    ) -> tuple[dict[str, Any], DataInputs]:
        """Load the samples after a review, holding out those that the run before it held out."""
        from datassay.commands.run.steps.before import earlier_run, inputs_like
        from datassay.commands.terminal import ProgressDisplay

        with ProgressDisplay(err_console) as progress:
            encode = asked_backbone(user_input, user_input.get("store"), progress)
            earlier = earlier_run(user_input["before"], typed.named, encode)
            inputs = inputs_like(earlier, typed)
            train, val = load_sets(inputs, encode, user_input.get("queries"))
        return {"train": train, "val": val, "earlier": earlier}, inputs


class _Check(_Run):
    """A run that judges conditions: what it prints, and its exit status."""

    def show(
        self, results: Any, settings: Any, page: "Page", path: Path, *, verbose: bool = False
    ) -> None:
        """Print the outcomes, or summary.json; exit with 3 where one failed, 4 if inconclusive.

        Raises:
            typer.Exit: not all conditions passed.
        """
        from datassay.commands.run.gate.conditions import FAILED, PASSED
        from datassay.commands.run.gate.formats import github_lines
        from datassay.commands.terminal import plain_text

        if settings.json:
            out_stream.write(path.with_name("summary.json").read_text(encoding="utf-8"))
        else:
            super().show(results, settings, replace(page, verdict=page.lead), path, verbose=verbose)
        console = out_console
        if settings.json:
            console = err_console
        lines = [f"{o.status.capitalize()}: {o.allowed}: {o.sentence}" for o in results.outcomes]
        console.print(*map(plain_text, lines), sep="\n", soft_wrap=True)
        if settings.github:
            data = str(results.origin.inputs["data"]).removeprefix(f"{Path.cwd()}{os.sep}")
            lines = github_lines(results.outcomes, data)
            console.print(*map(plain_text, lines), sep="\n", soft_wrap=True)
        statuses = [outcome.status for outcome in results.outcomes]
        n = len(statuses)
        if set(statuses) == {PASSED}:
            console.print(f"All {n} passed.", soft_wrap=True)
            return
        status = CONDITION_FAILED if FAILED in statuses else INCONCLUSIVE
        tally = Counter(sorted(statuses))  # failed, inconclusive, passed
        words = ", ".join(f"{n} {word}" for word, n in tally.items())
        console.print(f"{words}; exit status {status}.", soft_wrap=True)
        raise typer.Exit(status)


class _Summarize(Command):
    """A command that writes two files and no page; `keep.py` holds its job and its files."""

    def arguments(self, user_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the samples, and the settings by which the network is trained."""
        return {**super().arguments(user_input), "training": settings_from(RunSettings, user_input)}

    def write(self, results: Any, out: Path, *, overwrite: bool = False) -> "tuple[Page, Path]":
        """Write both files; return the page, which is only printed, and the first file's path."""
        from datassay.store.outputs import write_pages

        keep = self.module("files")
        page = keep.page(results)
        write_pages(keep.files(results, page), out, overwrite=overwrite)
        return page, out / next(iter(keep.FILES))


RUN = _Run(
    name="run",
    common="target ids drop val_fraction noise model seed budget before plan",
    help="""Score every training sample, compare what could be done, and write one page.

    Files: index.html (the page), scores.parquet, attribution.parquet, suspects.csv and
    summary.json.

    Examples:
      datassay run digits --noise 0.08
      datassay run table.csv --target label --ids id --out report
      datassay run photos/ --model cnn --store store --plan
      datassay run clean --before report --out after
    """,
    settings=RunSettings,
    inputs=(NoiseInputs, AdversarialInputs, DataInputs, PlanInputs),
    out="report",
    order=10,
    scores_all=True,
)
SCORE = _Run(
    name="score",
    common="target ids val_fraction source noise model weights seed plan",
    help="""Score every sample without retraining any network, in seconds.

    Takes what `run` takes and writes the same files.

    Examples:
      datassay score digits --out scores
      datassay score table.parquet --target label --source clinic --attribution loss --top 20
      datassay score table.csv --target label --subsets 10
      datassay score digits --smoothing sgd --batch-size 64 --lr 0.0005 --weight-decay 0.01
    """,
    settings=ScoreSettings,
    inputs=(NoiseInputs, AdversarialInputs, DataInputs, PlanInputs),
    out="scores",
    order=11,
    scores_all=True,
)
CHECK = _Check(
    name="check",
    common="target ids val_fraction source fail_on baseline json github",
    help="""Fail a build on what is wrong with the data.

    Scores the samples as `score` does, and judges conditions: FAULTS.

    A condition fails where the least that there is of the fault lies above the limit, and passes
    where the most does not. Between, or where nothing was looked for, it is inconclusive. Exit
    status: 0 all passed, 3 one failed, 4 none failed but one is inconclusive, 2 a mistake of use.

    Writes what `score` writes, and junit.xml.

    Examples:
      datassay check table.csv --target label --fail-on leak
      datassay check table.csv --fail-on "wrong > 2 %" --baseline old/summary.json
    """.replace("FAULTS", ", ".join(MEANINGS)),
    settings=CheckSettings,
    inputs=(DataInputs,),
    out="check",
    order=29,
    scores_all=True,
)
SUMMARIZE = _Summarize(
    name="summarize",
    common="target ids val_fraction fraction rule drop_suspects model seed",
    help="""Choose which samples to keep, by the rule that does best on held-out samples.

    Likely label errors go first. The rules: fit keeps what adds most to a fit of all samples;
    boundary what that fit still gets wrong, everywhere; margin the hardest; random; information
    what changes the network most.

    Writes keep.parquet, one row per sample to keep, and keep.json.

    Examples:
      datassay summarize digits --fraction 0.5 --out half
      datassay summarize digits --fraction 0.1 --rule boundary --no-drop-suspects --out tenth
    """,
    settings=KeepSettings,
    inputs=(TrainingSettings, NoiseInputs, DataInputs),
    home="datassay.commands.run.keep",
    out="summary",
    order=12,
    scores_all=True,
)
COMMANDS = (RUN, SCORE, SUMMARIZE, CHECK)


def write_results(
    findings: "Findings", out: Path, further: "Mapping[str, Part] | None" = None
) -> Path:
    """Write a run's index.html, tables and summary.json, each whole or not at all.

    Args:
        findings: one run's results.
        out: the folder; made where it does not exist. Other files in it stay.
        further: further files, as for `write_pages`; None: none.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    from datassay.commands.run.files import FILES, files
    from datassay.commands.run.page import page
    from datassay.report.html import render
    from datassay.store.outputs import write_pages

    run_page = page(findings, str(out))
    parts = {**files(findings, run_page), **(further or {}), PAGE: render(run_page)}
    return write_pages(parts, out, job=FILES)
