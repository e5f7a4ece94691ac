"""The answer of a run: a table of acts, best first, and their gains as a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.choose.act import (
    BALANCE,
    DROP,
    MEND,
    MORE,
    PURIFY,
    REMOVE,
    REWEIGHT,
    SPLIT,
)  # fmt: skip
from datassay.act.choose.gains import (
    BETTER,
    EXPECTED,
    PERHAPS,
    RETRAINED,
    SAME,
    WORSE,
    ActGain,
    ActTable,
)  # fmt: skip
from datassay.commands.run.findings import Findings
from datassay.report.advice import Advice
from datassay.report.page import Figure, Row, Section, Table, Text
from datassay.report.style import BLUE, GREY, SKY, VERMILION, plain, style
from datassay.report.wording import count, in_points, signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Drawing

ANCHOR = "acts"
# A gain that an interval may leave open where it is said that nothing need be done.
SMALL = 0.02
# Where the page shows what an act rests on.
EVIDENCE = {MEND: "labels", REMOVE: "labels", DROP: "removal", MORE: "modes"}
# The command that goes into an act.
COMMANDS = {
    MEND: "view and apply", REMOVE: "view and apply", DROP: "summarize", REWEIGHT: "weigh",
    BALANCE: "weigh", PURIFY: "purify", SPLIT: "partition", MORE: "complexity",
}  # fmt: skip


def section(findings: Findings) -> tuple[Section, ...]:
    """The table of acts; none where nothing was retrained."""
    table = findings.acts
    if table is None:
        return ()
    blocks: list[Text | Figure | Table] = [Text(_measured_on(table))]
    if any(act.how != "screened" for act in table.acts):
        words = "Gain of each act with its 95 % interval"
        blocks += [Figure(ANCHOR, acts_figure(table), words)]
    blocks += [Table(
        "What would help most", _columns(table), tuple(_row(act, table) for act in table.acts),
        note=_note(table), in_terminal=True, wraps=False,
    )]  # fmt: skip
    if table.left_out:
        blocks += [Text("Not tried. " + " ".join(table.left_out), note=True)]
    return (Section(ANCHOR, "What helps", "What would help most", tuple(blocks)),)


def _measured_on(table: ActTable) -> str:
    share = f"{_score(table.score, table.metric)} of {table.metric}"
    if not in_points(table.metric):
        share = f"{table.metric} {table.score:.3f}"
    parts = f"{count(table.n_held_out, 'held-out sample')}"
    parts += f" in {table.n_parts} parts" if table.n_parts > 1 else ""
    text = (
        f"Each act was done and the model trained again, beside the samples as they are, which "
        f"reach {share} on {parts} that no score of theirs had seen."
    )
    if table.is_corrected:
        text += (
            f" Held-out labels are as noisy as the others ({table.n_suspected:,} are suspected): "
            "gains count with the noise that was found; beside them stands what is left on given "
            "labels, and on those that are not suspected."
        )
    return text


def _score(value: float, metric: str) -> str:
    return f"{100 * value:.1f} %" if in_points(metric) else f"{value:.3f}"


def _columns(table: ActTable) -> tuple[str, ...]:
    unit = "points" if in_points(table.metric) else table.metric
    return (
        "act", f"gain, {unit}", "95 % interval", "verdict", "samples", "control",
        "given labels", "unsuspected", "seconds",
    )  # fmt: skip


def _row(act: ActGain, table: ActTable) -> Row:
    def told(gain: float) -> str:
        return "" if np.isnan(gain) else signed(gain, table.metric)

    wide = not np.isfinite(act.low)
    verdict = act.verdict or ("expected" if act.how == EXPECTED else "only screened")
    samples = f"{act.changed:,}" if act.cost >= 0 else f"{-act.cost:,} more"
    cells = (
        told(act.gain),
        "" if wide else f"{signed(act.low, table.metric)} to {signed(act.high, table.metric)}",
        verdict,
        f"−{act.cost:,}" if act.cost > 0 else samples,
        told(act.control),
        told(act.given),
        told(act.unsuspected),
        f"{act.seconds:.1f}" if act.seconds else "",
    )
    return Row(act.words, cells, act is table.best, EVIDENCE.get(act.kind, ""))


def _note(table: ActTable) -> str:
    seeds = count(table.n_seeds, "seed")
    text = (
        f"Gains are means over {seeds} and all held-out samples; intervals hold what other seeds "
        "and other held-out samples would change. Better and worse hold beside all acts tried "
        "(Holm, 5 %), perhaps better only if it were the one act tried. Control: as many samples "
        "at random, the same weights shuffled, blocks at random. Dropped are suspects first, then "
        "the least informative samples. "
    )
    if any(act.how == "screened" for act in table.acts):
        text += (
            "Only screened: by kernel ridge regression, no model retrained; --budget buys more. "
        )
    if any(act.how == EXPECTED for act in table.acts):
        text += "Expected: read off the learning curve, not measured. "
    text += "".join(f"{act.words}: {act.note}. " for act in table.acts if act.note)
    kinds = [act.kind for act in table.acts]
    depth = dict.fromkeys(COMMANDS[kind] for kind in COMMANDS if kind in kinds)
    return f"{text}In depth: datassay {', '.join(depth)}."


def acts_figure(table: ActTable) -> Drawing:
    """A line an act: its gain and its interval; left of 0 it harms."""
    import plotly.graph_objects as go

    acts = [act for act in table.acts if np.isfinite(act.low)][::-1]
    scale = 100 if in_points(table.metric) else 1
    figure = go.Figure()
    for name, colour, chosen in (
        ("better", BLUE, [a for a in acts if a.verdict == BETTER]),
        ("perhaps better", SKY, [a for a in acts if a.verdict == PERHAPS]),
        ("no difference shown", GREY, [a for a in acts if a.verdict == SAME]),
        ("worse", VERMILION, [a for a in acts if a.verdict == WORSE]),
        ("expected, not measured", "#b5bdc6", [a for a in acts if a.how == EXPECTED]),
    ):  # fmt: skip
        if not chosen:
            continue
        gain, low, high = (np.array([getattr(a, n) for a in chosen]) * scale
                           for n in ("gain", "low", "high"))  # fmt: skip
        figure.add_scatter(
            x=gain, y=[plain(a.words, 60) for a in chosen], mode="markers", name=name,
            marker={"color": colour, "size": 10},
            error_x={"type": "data", "array": high - gain, "arrayminus": gain - low,
                     "color": colour, "thickness": 2},
            hovertemplate="%{y}: %{x:.2f}<extra></extra>",
        )  # fmt: skip
    unit = f"points of {table.metric}" if in_points(table.metric) else table.metric
    style(figure, f"gain over the samples as they are, {unit}", "")
    figure.add_vline(x=0, line={"color": GREY, "width": 1})
    order = [plain(act.words, 60) for act in acts]
    figure.update_yaxes(categoryorder="array", categoryarray=order, showgrid=True)
    height = 150 + 34 * len(acts)
    figure.update_layout(height=height, showlegend=True, margin={"b": 96})
    figure.update_layout(
        legend={"y": -64 / (height - 120)}
    )  # below the axis title, whatever the height
    return figure


def acts_advice(findings: Findings) -> tuple[Advice, ...]:
    """The answer in one line: the act that helps most, or that nothing need be done."""
    table = findings.acts
    if table is None:
        return ()
    best = table.best
    if best is None:
        perhaps = [act for act in table.acts if act.verdict == PERHAPS]
        if not perhaps:
            sure = _most(table) <= SMALL
            headline = "Nothing to do" if sure else "No act is shown to help"
            return (Advice("acts", "fine" if sure else "look", headline, _nothing(table)),)
        first = perhaps[0]
        headline = f"Perhaps: {first.words[:1].lower()}{first.words[1:]} ({first.changed:,})"
        sentence = (
            f"{_gain_text(first, table)} on {count(table.n_held_out, 'held-out sample')}. Of "
            "several acts tried one may look so by chance; more held-out samples would tell."
        )
        return (Advice("acts", "look", headline, sentence),)
    others = [a for a in table.acts if a.verdict == BETTER and a is not best]
    sentence = f"{_gain_text(best, table)} on {count(table.n_held_out, 'held-out sample')}."
    if others:
        named = "; ".join(
            f"{a.words[:1].lower()}{a.words[1:]}, {_gain_text(a, table)}" for a in others
        )
        sentence += f" Also better than nothing: {named}."
    return (Advice("acts", "act", f"{best.words} ({best.changed:,})", sentence),)


def _gain_text(act: ActGain, table: ActTable) -> str:
    unit = " points" if in_points(table.metric) else ""
    low, high = signed(act.low, table.metric), signed(act.high, table.metric)
    gain = f"{signed(act.gain, table.metric)}{unit} of {table.metric}"
    return f"{gain} (95 % interval {low} to {high})"


def _most(table: ActTable) -> float:
    """The largest gain that an interval leaves open."""
    return max((act.high for act in table.acts if act.how == RETRAINED), default=0.0)


def _nothing(table: ActTable) -> str:
    tried = [act for act in table.acts if act.how == RETRAINED]
    text = (
        f"Of {count(len(tried), 'act')} that were tried none is better than the samples as they "
        f"are, beyond what other seeds and other held-out samples would change."
    )
    if tried:
        first = tried[0]
        text += f" The largest gain: {first.words[:1].lower()}{first.words[1:]}, "
        text += f"{_gain_text(first, table)}."
    return text
