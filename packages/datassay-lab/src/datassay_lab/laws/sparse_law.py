"""Discover a law by sparse regression over a dictionary of derivatives, and measure its error."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from datassay.report import INK, VERMILION, style
from datassay_lab.curves import COLOURS, axes, finish, theory
from datassay_lab.laws.pde_simulation import Solution

# Thresholds of the coefficients, each column and the target scaled to length 1.
THRESHOLDS = np.logspace(-3, 0, 25)
# Avoids singular systems; the final coefficients are plain least squares.
RIDGE = 1e-8
# Grid points left out at the border, where differences are one-sided.
BORDER = 8
MOST_SAMPLES = 20_000
FIELDS = "uvw"  # as the dictionary calls them
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class KnownLaw:
    """A known equation, and its errors in S2's table."""

    name: str  # of the equation
    simulate: Callable[[], Solution]  # () → its solution
    # coefficients of each field's time derivative, by PySINDy's names of terms.
    truth: tuple[Mapping[str, float], ...]
    order: int  # highest derivative in the dictionary
    degree: int  # highest power of the fields
    # half lengths of the weak form's windows, space axes first, time last.
    window: tuple[float, ...]
    published: tuple[float, float]  # mean error in percent, without and with noise
    published_spread: tuple[float, float]  # its ± in percent
    # known function of x, used as one more field, or None.
    potential: Callable[[np.ndarray], np.ndarray] | None = None
    # what the fields are called in the law that is shown. Those beyond the laws' are known, as
    # velocities or a potential: no law of theirs is sought, and their derivatives are no terms.
    letters: str = "uv"
    products: bool = True  # whether the dictionary has products of fields and derivatives


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Candidate terms of a time derivative."""

    names: tuple[str, ...]  # [p], PySINDy's names of the terms
    terms: Float[np.ndarray, "s p"]  # their values
    target: Float[np.ndarray, "s v"]  # time derivatives of the v fields


@dataclass(frozen=True, slots=True)
class DiscoveredLaw:
    """A discovered law, compared with the true one."""

    # mean relative error of the true coefficients in percent; a missing one counts 100.
    error: float
    spread: float  # its standard deviation over the coefficients, percent
    right: bool  # whether exactly the true terms were found
    text: str  # the law, one equation per field


def add_noise(solution: Solution, noise: float, seed: int) -> Solution:
    """Add white noise to every value of a solution."""
    # noise: standard deviation of the noise, as a share of each field's.
    values = solution.values
    scale = noise * values.std(axis=tuple(range(values.ndim - 1)))
    white = np.random.default_rng(seed).normal(size=values.shape)
    return Solution(solution.x, solution.t, values + scale * white)


def weak_form(
    law: KnownLaw, versions: Sequence[Solution], n_windows: int, seed: int
) -> list[Dictionary]:
    """Build dictionaries of terms integrated against smooth bumps, which get the derivatives."""
    # law: the law whose dictionary is built. versions: its solutions on one grid: without noise,
    # with noise. n_windows: random windows in space and time, one equation each.
    # Source: Messenger and Bortz (2021); PySINDy's WeakPDELibrary.
    import pysindy as ps
    from sklearn.utils import check_random_state

    fields = [_with_potential(law, version) for version in versions]
    axes = [versions[0].x] * (fields[0].ndim - 2) + [versions[0].t]
    # PySINDy draws windows from numpy's global generator: seed it here and restore it.
    numpy_random = check_random_state(None)
    state = numpy_random.get_state()
    numpy_random.seed(seed)
    try:
        library = ps.WeakPDELibrary(
            function_library=ps.PolynomialLibrary(degree=law.degree, include_bias=False),
            derivative_order=law.order,
            spatiotemporal_grid=np.stack(np.meshgrid(*axes, indexing="ij"), -1),
            include_bias=law.potential is None,
            include_interaction=law.products,
            K=n_windows,
            H_xt=list(law.window),
            p=2 * law.order,
        )
    finally:
        numpy_random.set_state(state)
    library.fit(fields[:1])
    terms = [np.asarray(columns) for columns in library.transform(fields)]
    targets = [np.asarray(library.convert_u_dot_integral(values)) for values in fields]
    pairs = zip(terms, targets, strict=True)
    return [_dictionary(law, library, columns, target) for columns, target in pairs]


def difference_form(law: KnownLaw, solution: Solution) -> Dictionary:
    """Return the terms at grid points, with sixth-order central differences."""
    # law: the law whose dictionary is built.
    # Source: PySINDy's PDELibrary and FiniteDifference.
    import pysindy as ps

    values = _with_potential(law, solution)
    library = ps.PDELibrary(
        function_library=ps.PolynomialLibrary(degree=law.degree, include_bias=False),
        derivative_order=law.order,
        spatial_grid=solution.x,
        include_bias=law.potential is None,
        include_interaction=law.products,
        differentiation_method=ps.FiniteDifference,
        diff_kwargs={"order": 6},
    )
    library.fit([values])
    interior = (slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    terms = np.asarray(library.transform([values])[0])[interior]
    rates = ps.FiniteDifference(order=6, axis=1)._differentiate(values, solution.t)
    terms = terms.reshape(-1, terms.shape[-1])
    target = np.asarray(rates)[interior].reshape(len(terms), -1)
    stride = -(-len(terms) // MOST_SAMPLES)
    return _dictionary(law, library, terms[::stride], target[::stride])


def sparsest(
    terms: Float[np.ndarray, "s p"], target: Float[np.ndarray, " s"], weight: float
) -> Float[np.ndarray, " p"]:
    """Find the least ‖y − Dα‖₂ / ‖y‖₂ + weight · ‖α‖₀ among thresholded least-squares fits."""
    # Source: S2 class 5, "Dictionary approach", without a weight before ‖α‖₀; Brunton, Proctor
    # and Kutz (2016) for sequentially thresholded least squares (PySINDy's STLSQ).
    import pysindy as ps

    lengths, size = np.linalg.norm(terms, axis=0), np.linalg.norm(target)
    lengths[lengths == 0] = 1.0
    best_coef, least_price = np.zeros(terms.shape[1]), 1.0  # no term at all
    for threshold in THRESHOLDS:
        optimizer = ps.STLSQ(threshold=threshold, alpha=RIDGE, max_iter=50)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySINDy warns where a threshold leaves no term
            optimizer.fit(terms / lengths, target[:, None] / size)
        coef = optimizer.coef_[0] / lengths * size
        price = np.linalg.norm(target - terms @ coef) / size + weight * np.count_nonzero(coef)
        if price < least_price:
            best_coef, least_price = coef, price
    return best_coef


def discover_law(law: KnownLaw, dictionary: Dictionary, weight: float) -> DiscoveredLaw:
    """Return the sparsest law of a dictionary, compared with the true one."""
    # Source: errors as in Rudy et al. (2017), table 1: mean and standard deviation over the
    # coefficients of |found − true| / |true|.
    errors, is_right, lines = [], True, []
    for index, truth in enumerate(law.truth):
        coefficients = sparsest(dictionary.terms, dictionary.target[:, index], weight)
        pairs = zip(dictionary.names, coefficients, strict=True)
        found_terms = {name: float(value) for name, value in pairs if value}
        errors += [100 * abs(found_terms.get(name, 0) / value - 1) for name, value in truth.items()]
        is_right = is_right and set(found_terms) == set(truth)
        readable_terms = {readable(name, law.letters): value for name, value in found_terms.items()}
        lines.append(law_text(f"{law.letters[index]}_t", readable_terms))
    return DiscoveredLaw(float(np.mean(errors)), float(np.std(errors)), is_right, "; ".join(lines))


def readable(name: str, letters: str = "uvw") -> str:
    """Return a term in mathematical notation: "u^2u_11" → "u² u_xx"."""
    # name: PySINDy's name of the term, its fields u, v and w.
    name = re.sub(r"\^(\d)", lambda match: match[1].translate(SUPERSCRIPTS), name)
    name = re.sub(r"(?<=[uvw²³⁴])\s*(?=[uvw])", " ", name)
    name = re.sub(r"_(\d+)", lambda match: "_" + match[1].translate({49: "x", 50: "y"}), name)
    return name.translate(dict(zip(map(ord, FIELDS), letters, strict=False)))


def law_text(lhs: str, terms: Mapping[str, float]) -> str:
    """Return a law in mathematical notation."""
    # terms: coefficient by term, none 0.
    texts = [
        f"{'−' if value < 0 else '+'} {abs(value):.4g} {name}" for name, value in terms.items()
    ]
    return f"{lhs} = " + (" ".join(texts).removeprefix("+ ") or "0")


def _with_potential(law: KnownLaw, solution: Solution) -> np.ndarray:
    if law.potential is None:
        return solution.values
    potential = law.potential(solution.x)[:, None, None]
    return np.concatenate([solution.values, potential + 0 * solution.values[..., :1]], -1)


def _dictionary(law: KnownLaw, library: Any, terms: np.ndarray, target: np.ndarray) -> Dictionary:
    n_fields = len(law.truth)
    fields = list(FIELDS)[: len(law.letters)]
    names = library.get_feature_names(fields)
    prefixes = [f"{field}_" for field in fields[n_fields:]]
    term_idx = [index for index, name in enumerate(names) if not any(k in name for k in prefixes)]
    return Dictionary(
        tuple(names[position] for position in term_idx), terms[:, term_idx], target[:, :n_fields]
    )  # fmt: skip


LONGEST = 105
ROW = 26  # height of a line in pixels
WASH = "#f6f8fa"


def error_bars(
    equations: Sequence[str],
    ours: Mapping[str, tuple[Float[np.ndarray, "e 2"], Bool[np.ndarray, "e 2"]]],
    published: Float[np.ndarray, "e 2"],
    noise: float,
) -> Any:
    """Draw errors without and with noise, one pair of columns per equation."""
    # ours: errors [e, 2] in percent by kind, and whether the terms were right. noise: of the
    # second column, as a share.
    figure = axes("", "mean error of the coefficients, %", log="y", height=400)
    columns = np.arange(2 * len(equations))
    for index, (kind, (errors, is_right)) in enumerate(ours.items()):
        marks = is_right.ravel()
        figure.add_scatter(
            x=columns + 0.16 * (index - (len(ours) - 1) / 2), y=errors.ravel(), name=kind,
            mode="markers", hovertemplate="%{y:.3g} %<extra>" + kind + "</extra>",
            marker={"color": COLOURS[index], "size": 11, "line": {"width": 2},
                    "symbol": np.where(marks, "circle", "x-thin-open").tolist()},
        )  # fmt: skip
    for column, value in enumerate(published.ravel()):
        theory(figure, [column - 0.35, column + 0.35], [value, value], "" if column else "S2")
    labels = [f"{name}<br>{end}" for name in equations for end in ("clean", f"{100 * noise:g} %")]
    finish(figure)
    figure.update_xaxes(tickvals=columns, ticktext=labels, range=[-0.5, len(columns) - 0.5])
    figure.update_layout(legend_y=-0.25)
    return figure


def field_picture(values: Float[np.ndarray, "n m"], size: int) -> Float[np.ndarray, "h w"]:
    """Reduce a field to size x size places and scale it to ±1."""
    # size: rows and columns of the picture.
    rows, columns = (np.linspace(0, n - 1, size).astype(int) for n in values.shape)
    return values[np.ix_(rows, columns)] / np.abs(values).max()


def law_table(rows: Sequence[tuple[str, str, bool]]) -> Any:
    """Return a table of discovered laws."""
    # rows: (case, law, whether its terms are right).
    import plotly.graph_objects as go

    cases, laws, is_right = zip(*rows, strict=True)
    texts = [law if len(law) <= LONGEST else law[: LONGEST - 1] + "…" for law in laws]
    colours = [INK if is_true else VERMILION for is_true in is_right]
    figure = go.Figure()
    figure.add_table(
        columnwidth=[2, 5],
        header={"values": ["data", "law found"], "align": "left", "fill": {"color": WASH},
                "font": {"size": 12.5}, "line": {"width": 0}},
        cells={"values": [cases, texts], "align": "left", "height": ROW, "line": {"width": 0},
               "fill": {"color": "white"}, "font": {"size": 12.5, "color": [colours, colours]}},
    )  # fmt: skip
    style(figure, "", "")
    # A law that needs two lines needs two rows.
    lines = sum(1 + len(law) // 60 for law in texts)
    figure.update_layout(height=ROW * (lines + 2), margin={"l": 0, "r": 0, "t": 8, "b": 0})
    return figure
