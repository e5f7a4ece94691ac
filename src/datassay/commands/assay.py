"""`datassay.assay`: the job of `datassay run` for notebooks and programs."""

import json
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from datassay.commands.finished import UserData, with_roles, with_unscored
from datassay.commands.inputs import MODEL, asked_backbone
from datassay.commands.run.settings import RunSettings
from datassay.commands.terminal import notebook_progress
from datassay.data.arguments import checks_arguments
from datassay.data.settings import Loading
from datassay.errors import DataError, ModelError
from datassay.models.estimators import NEEDED, is_estimator
from datassay.optional import coalesce, text_if
from datassay.progress import Progress
from datassay.report.wording import count, gain_text
from datassay.results import Plotted, result
from datassay.rules import fraction

if TYPE_CHECKING:
    import pyarrow as pa

    from datassay.act.choose.gains import ActionTable
    from datassay.act.review.decisions import Decisions
    from datassay.commands.run.findings import Findings
    from datassay.commands.view.server import ReviewServer
    from datassay.report.page import Page

OUT = "report"  # as `datassay run` has it
HIDDEN = {"acts", "view", "user_data"}  # names that `dir` does not show


@result
class Assay(Plotted):
    """What a data set holds, and what would help it most.

    `print` gives the verdict and its warnings in lines, a notebook the ten most suspect samples and
    the table of actions, too. Frames are those of pandas, where that is installed, else Arrow
    tables; their index is that of the user's own pandas frame, else the ids.

    Attributes:
        findings: everything that was measured.
        user_data: the samples as they were given.
    """

    findings: "Findings"
    user_data: UserData

    @property
    def actions(self) -> "ActionTable | None":
        """The gain of each action on held-out samples, best first; None: nothing was retrained."""
        return self.findings.acts

    acts = actions  # its earlier name

    @property
    def verdict(self) -> str:
        """What is wrong with the data, and what doing something about it gains, in a sentence."""
        from datassay.commands.run.verdict import verdict

        return verdict(self.findings).sentence

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
        frame_columns = {*self.user_data.frame_columns}
        names = [f"{n} (scores)" if n in frame_columns else n for n in table.column_names]
        return self._frame(table.rename_columns(names), table["id"])

    @property
    def suspects(self) -> Any:
        """Labels to check, worst first: given, suggested, how likely wrong, then their columns."""
        from datassay.commands.run.suspects import suspects_table

        table = suspects_table(self.findings)
        return self._frame(table, table["id"])

    def _frame(self, table: "pa.Table", ids: "pa.ChunkedArray") -> Any:
        """Return a table as a pandas frame where pandas is installed, else unchanged."""
        if find_spec("pandas") is None:
            return table
        frame = table.to_pandas()
        index = self.user_data.frame_index(ids.to_pylist())
        if index is None:
            return frame.set_index("id")
        return frame.set_axis(index)

    def to_dict(self) -> dict[str, Any]:
        """Return what summary.json holds, as plain values; its schema is in the package."""
        from datassay.commands.run.files import summary
        from datassay.report.tables import standard_json

        return json.loads(standard_json(summary(self.findings, self._page)))

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
        if self.user_data.is_named or self.user_data.is_loaded:
            return write_results(self.findings, out)
        with tempfile.TemporaryDirectory() as folder:
            file, origin = self.user_data.write_data(Path(folder), out)
            extra_files = {file.name: partial(shutil.copyfile, file)}
            return write_results(replace(self.findings, origin=origin), out, extra_files)

    def review(self, path: str | Path = OUT, *, port: int = 0) -> "Review":
        """Save the results, and serve the page for a review as `datassay view` does.

        `apply` with the same path then gives back the data as decided.

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

        if self.user_data.is_loaded:
            raise DataError(
                "data must be a name, a path, or what is stored with the results, for a review; "
                "these came as SampleSets. Give assay what load was given."
            )
        self.save(path)
        return Review(open_review(Path(path), port=port))

    view = review  # its earlier name

    def apply(
        self,
        path: str | Path = OUT,
        *,
        accept_suggested: float | None = None,
        drop_copies: bool = False,
    ) -> Any:
        """Return the data as decided: labels corrected, samples removed, nothing else changed.

        Args:
            path: the folder that `review` was given, whose decisions are taken.
            accept_suggested: relabel also what is not decided, where `wrong_probability` is at
                least this; None: nothing else.
            drop_copies: remove also what is not decided and repeats another sample.

        Returns:
            A frame as given (pandas, polars; else Arrow), or (x, y); yours stays as it is.

        Raises:
            DataError: nothing was decided, or the data are no frame and no (x, y) arrays.
            SettingError: accept_suggested is no probability.
        """
        from datassay.act.review.decisions import FILE, Decisions, read_decisions
        from datassay.commands.apply.job import add_suggestions
        from datassay.commands.corrected import correct_data
        from datassay.commands.run.table import score_table

        file = Path(path) / FILE
        asks_for_decisions = accept_suggested is None and not drop_copies
        if asks_for_decisions and not file.exists():
            raise DataError(
                f"{path} must hold decisions; nobody has reviewed these labels there. Call "
                f"review({str(path)!r}), or give accept_suggested=0.9."
            )
        if accept_suggested is not None:
            fraction("accept_suggested", accept_suggested, "[]")
        if file.exists():
            decisions = read_decisions(file)
        else:
            decisions = Decisions(())
        scores = score_table(self.findings)
        added = add_suggestions(decisions, scores, accept_suggested, drop_copies=drop_copies)
        return correct_data(self.user_data, self.findings.samples, added)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in HIDDEN]

    @property
    def _page(self) -> "Page":
        from datassay.commands.run.page import page

        return page(self.findings)

    def plot(self) -> Any:
        """Draw what each action gains, or without actions how suspect the labels are.

        Returns:
            A plotly.graph_objects.Figure.
        """
        return coalesce(self.actions, self.findings.issues).plot()

    def __repr__(self) -> str:
        samples = self.findings.samples
        from datassay.commands.run.verdict import verdict

        run_verdict = verdict(self.findings)
        labels = run_verdict.labels
        suspects = count(labels.n_flagged, f"suspected {labels.noun}")
        text = f"{count(len(samples), 'sample')}, {suspects}"
        headline = run_verdict.cards[0].headline
        verb = text_if(run_verdict.commands, "next: ")
        return f"Assay({samples.name}: {text}, {verb}{headline[:1].lower()}{headline[1:]})"

    def __str__(self) -> str:
        from datassay.act.choose.gains import RETRAINED

        table = self.actions
        lines = []
        if table is not None:
            measured = [action for action in table.actions if action.how == RETRAINED]
            lines = [f"  {a.words}: {gain_text(a, table.metric)}" for a in measured[:3]]
        warnings = [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join([self.verdict, *warnings, *lines, self._hints])

    def _repr_html_(self) -> str:
        from datassay.commands.display import assay_html

        return assay_html(self.findings, self._hints)

    @property
    def _hints(self) -> str:
        """How to go on, in a line."""
        n = len(self.suspects)
        if not n:
            return f".save({OUT!r}) writes the page; .scores, .actions and .plot() hold the rest."
        return (
            f"Next: .review(). Then .apply() gives the data corrected, and .save({OUT!r}) "
            f"writes the page; .suspects ({n:,}, worst first), .scores, .actions and .plot() hold "
            "the rest."
        )


class Review:
    """A review that is served in the background.

    Args:
        server: made, not serving yet.
    """

    def __init__(self, server: "ReviewServer"):
        self._server = server
        threading.Thread(target=server.serve_forever, name="review", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the page; whoever knows it can read the samples and decide."""
        return self._server.url

    @property
    def decisions(self) -> "Decisions":
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
    progress: Progress | None = None,
    **reading: Any,
) -> Assay:
    """Score the samples and compare actions on them, as `datassay run` does.

    Args:
        data: what `load` takes: a built-in name, a path, a data frame of any library, (x, y)
            arrays, a torch Dataset. Or (train, val) as `load` gives them; val may be None.
        target: the column of a table to predict; None: the one called target, label, y or class.
            A list of several: numbers.
        ids: the column of a table that names its rows; for arrays and Datasets [n] of them.
        model: a name as for `build_model`; a network, or a function without arguments that makes
            one; or a scikit-learn estimator: it scores the labels and is retrained, while scores
            that need gradients are those of the default network.
        val: held-out samples of their own, of the same kind as data.
        seed: of split, noise, weights, projection and batches.
        budget: seconds by the clock after which nothing more is retrained; 0: actions are not
            compared. None: the same networks on every machine, as `datassay run` has it.
        progress: called with (step, units done, units in all); None: a notebook shows a line.
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
    user_data = UserData(data, val, reading)
    with notebook_progress() if progress is None else nullcontext(progress) as report:
        train, held_out = user_data.sets(asked_backbone({"model": settings.model}, None, report))
        if reading.get("val_fraction") is None:
            train = with_unscored(train, held_out)
        findings = run(train, held_out, settings, report)
    user_data = replace(user_data, reading=with_roles(reading, train))
    if user_data.is_named:
        findings = replace(findings, origin=user_data.origin())
    return Assay(findings, user_data)


def _model_settings(model: Any) -> dict[str, Any]:
    """Return the fields of RunSettings that hold the model: its name, and an object if given."""
    if isinstance(model, str):
        return {"model": model}
    is_estimator_class = isinstance(model, type) and all(hasattr(model, name) for name in NEEDED)
    if is_estimator_class or is_estimator(model):
        return {"estimator": model}
    if isinstance(model, nn.Module) or callable(model):
        name = getattr(model, "__name__", type(model).__name__)
        return {"network": model, "model": name if name.isidentifier() else "your network"}
    raise ModelError(
        "model must be a name, a torch.nn.Module or what makes one, or a scikit-learn estimator; "
        f"got a {type(model).__name__}."
    )
