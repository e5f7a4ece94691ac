"""`datassay.assay`: the job of `datassay run` for notebooks and programs."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from datassay.commands.finished import Given, with_unscored
from datassay.commands.inputs import MODEL, asked_backbone
from datassay.commands.run.settings import RunSettings
from datassay.data.arguments import checks_arguments
from datassay.data.settings import Loading
from datassay.errors import DataError, ModelError
from datassay.models.estimators import NEEDED, is_estimator
from datassay.progress import Progress, silent
from datassay.report.wording import count, gain_text
from datassay.results import Plotted, result

if TYPE_CHECKING:
    import pyarrow as pa

    from datassay.act.choose.gains import ActionTable
    from datassay.act.review.decisions import Decisions
    from datassay.commands.run.findings import Findings
    from datassay.commands.view.server import ReviewServer
    from datassay.report.page import Page

OUT = "report"  # as `datassay run` has it


@result
class Assay(Plotted):
    """What a data set holds, and what would help it most.

    `print` gives the verdict and its warnings in lines, a notebook beside them the table of
    actions. Frames are those of pandas, where that is installed, else Arrow tables; their index is
    that of the user's own pandas frame, else the ids.

    Attributes:
        findings: everything that was measured.
        given: the samples as they were given.
    """

    findings: Findings
    given: Given

    @property
    def actions(self) -> ActionTable | None:
        """The gain of each action on held-out samples, best first; None: nothing was retrained."""
        return self.findings.acts

    acts = actions  # its earlier name

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings to know before trusting a figure; the same lines stand on the page."""
        return self.findings.warnings

    @property
    def scores(self) -> Any:
        """The columns of scores.parquet, a row per training sample, in their order.

        `frame.join(found.scores)` joins them to the user's own pandas frame: a name that the frame
        has already stands with " (scores)" behind it.
        """
        from datassay.commands.run.table import score_table

        table = score_table(self.findings)
        frame_columns = {*self.given.frame_columns}
        names = [f"{n} (scores)" if n in frame_columns else n for n in table.column_names]
        return self._frame(table.rename_columns(names), table["id"])

    @property
    def suspects(self) -> Any:
        """Labels to check, worst first: given, suggested, how likely wrong, then their columns."""
        from datassay.commands.run.suspects import suspects_table

        table = suspects_table(self.findings)
        return self._frame(table, table["id"])

    def _frame(self, table: pa.Table, ids: pa.ChunkedArray) -> Any:
        """Return a table as a pandas frame where pandas is installed, else unchanged."""
        if find_spec("pandas") is None:
            return table
        frame = table.to_pandas()
        index = self.given.frame_index(ids.to_pylist())
        if index is None:
            return frame.set_index("id")
        return frame.set_axis(index)

    def page(self) -> str:
        """Return the page that `datassay run` writes, as HTML."""
        from datassay.report.html import render

        return render(self._page)

    def save(self, path: str | Path = OUT) -> Path:
        """Write the page and files that `datassay run` writes.

        Data that came from memory are written with it, to data.parquet or data.npz, so that
        `datassay view`, `apply` and `export` find them; not so samples that `load` gave.

        Args:
            path: of a folder; made where it does not exist. Other files in it stay.

        Returns:
            The path of the page.

        Raises:
            SettingError: the folder cannot be written, or the disk is full.
        """
        from datassay.commands.run.command import write_results

        out = Path(path)
        if self.given.is_named or self.given.is_loaded:
            return write_results(self.findings, out)
        with tempfile.TemporaryDirectory() as folder:
            file, origin = self.given.write_data(Path(folder), out)
            extra_files = {file.name: partial(shutil.copyfile, file)}
            return write_results(replace(self.findings, origin=origin), out, extra_files)

    def view(self, path: str | Path = OUT, *, port: int = 0) -> Review:
        """Save the results, and serve the page for a review as `datassay view` does.

        Args:
            path: of a folder; decisions that are saved there go on.
            port: of this machine only; 0: any that is free.

        Returns:
            The review; a notebook shows its address. The server lives as long as the process, or
            until `stop()`.

        Raises:
            DataError: the samples are those that `load` gave: nobody knows where they are.
            SettingError: the folder cannot be written, or the port is taken.
        """
        from datassay.commands.view.open import open_review

        if self.given.is_loaded:
            raise DataError(
                "data must be a name, a path, or what is stored with the results, for a review; "
                "these came as SampleSets. Give assay what load was given."
            )
        self.save(path)
        return Review(open_review(Path(path), port=port))

    @property
    def _page(self) -> Page:
        from datassay.commands.run.page import page

        return page(self.findings)

    def plot(self) -> Any:
        """Draw what each action gains, or without actions how suspect the labels are.

        Returns:
            A plotly.graph_objects.Figure.
        """
        return (self.findings.issues if self.actions is None else self.actions).plot()

    def __repr__(self) -> str:
        samples = self.findings.samples
        action = self.actions and self.actions.best
        n_suspects = int(self.findings.issues.is_issue.sum())
        text = f"{count(len(samples), 'sample')}, {count(n_suspects, 'suspected label')}"
        return f"Assay({samples.name}: {text}, best action: {action.words if action else 'none'})"

    def __str__(self) -> str:
        table = self.actions
        lines = []
        if table is not None:
            measured = [action for action in table.actions if action.is_measured]
            lines = [f"  {a.words}: {gain_text(a, table.metric)}" for a in measured[:3]]
        warnings = [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join([self._verdict, *warnings, *lines, self._where])

    def _repr_html_(self) -> str:
        from datassay.commands.run.tables import acts_table
        from datassay.report.notebook import short_html

        tables = [] if self.actions is None else [acts_table(self.actions)]
        warnings = (f"Warning: {warning}" for warning in self.warnings)
        return short_html(self._verdict, *warnings, *tables, self._where)

    @property
    def _verdict(self) -> str:
        from datassay.commands.run.verdict import verdict

        return verdict(self.findings).sentence

    @property
    def _where(self) -> str:
        hints = f"See .suspects ({len(self.suspects):,}, worst first), .scores, .actions, .plot(); "
        return f"{hints}.save('{OUT}') writes the page, .view() opens the review."


class Review:
    """A review that is served in the background.

    Args:
        server: made, not serving yet.
    """

    def __init__(self, server: ReviewServer):
        self._server = server
        threading.Thread(target=server.serve_forever, name="review", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the page; whoever knows it can read the samples and decide."""
        return self._server.url

    @property
    def decisions(self) -> Decisions:
        """The decisions so far."""
        from datassay.act.review.decisions import Decisions, read_decisions

        path = self._server.session.path
        if path.exists():
            return read_decisions(path)
        return Decisions(())

    def stop(self) -> None:
        """Stop the server; all decisions are saved."""
        self._server.shutdown()
        self._server.server_close()
        self._server.session.finish()

    def __repr__(self) -> str:
        return f"Review({self.url})"

    def _repr_html_(self) -> str:
        address = escape(self.url)
        return f'<a href="{address}" target="_blank" rel="noopener">Review the labels</a>'


@checks_arguments
def assay(
    data: Any,
    *,
    target: str | Sequence[str] | None = Loading.target,
    ids: Any = Loading.ids,
    model: Any = MODEL,
    val: Any = None,
    seed: int = Loading.seed,
    budget: float | None = RunSettings.budget,
    progress: Progress = silent,
    **reading: Any,
) -> Assay:
    """Score the samples and compare actions on them, as `datassay run` does.

    Args:
        data: what `load` takes: a built-in name, a path, a data frame of any library, (x, y)
            arrays, a torch Dataset. Or (train, val) as `load` gives them; val may be None.
        target: the column of a table to predict; None: the last. A list of several: numbers.
        ids: the column of a table that names its rows; for arrays and Datasets [n] of them.
        model: a name as for `build_model`; a network, or a function without arguments that makes
            one; or a scikit-learn estimator: it scores the labels and is retrained, while scores
            that need gradients are those of the default network.
        val: held-out samples of their own, of the same kind as data.
        seed: of split, noise, weights, projection and batches.
        budget: seconds by the clock after which nothing more is retrained; 0: actions are not
            compared. None: the same networks on every machine, as `datassay run` has it.
        progress: called with (step, units done, units in all).
        **reading: further arguments of `load`, such as val_fraction or drop. Of data in memory
            all samples are scored where val_fraction is left out.

    Returns:
        The actions, the scores, the suspects, and the page.

    Raises:
        DataError: the samples are not usable.
        ModelError: the model is none of these, or does not fit the samples.
        SettingError: a setting is outside its rule.

    Cost: that of `datassay run`.
    """
    from datassay.commands.run.job import run

    settings = replace(RunSettings(seed=seed, budget=budget), **_model_settings(model))
    reading |= {"target": target, "ids": ids, "seed": seed}
    if not isinstance(data, str | Path) and reading.get("val_fraction") is None:
        reading["val_fraction"] = 0.0
    samples = Given(data, val, reading)
    backbone = asked_backbone({"model": settings.model}, None, progress)
    train, held_out = samples.sets(backbone)
    if reading.get("val_fraction") is None:
        train = with_unscored(train, held_out)
    findings = run(train, held_out, settings, progress)
    if samples.is_named:
        findings = replace(findings, origin=samples.origin())
    return Assay(findings, samples)


def _model_settings(model: Any) -> dict[str, Any]:
    """Return the fields of RunSettings that hold the model: its name, and an object if given."""
    if isinstance(model, str):
        return {"model": model}
    is_class = isinstance(model, type) and all(hasattr(model, name) for name in NEEDED)
    if is_class or is_estimator(model):
        return {"estimator": model}
    if isinstance(model, nn.Module) or callable(model):
        name = getattr(model, "__name__", type(model).__name__)
        return {"network": model, "model": name if name.isidentifier() else "your network"}
    raise ModelError(
        "model must be a name, a torch.nn.Module or what makes one, or a scikit-learn estimator; "
        f"got a {type(model).__name__}."
    )
