"""The papers' figures as small static SVG files: no library, no script, readable in any viewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "figures"
# Okabe and Ito's colours, safe for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8a94a0", "#cc79a7", "#e69f00")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 300, 56, 44, 34


def histogram(
    name: str,
    title: str,
    groups: Mapping[str, np.ndarray],
    *,
    x_title: str,
    log: bool = True,
    bins: int = 32,
) -> None:
    """Share of each group's samples by value, groups side by side on one axis."""
    values = {label: np.asarray(v, float) for label, v in groups.items()}
    if log:
        top = max(v.max() for v in values.values())
        values = {k: np.log10(np.maximum(v, 1e-9 * top)) for k, v in values.items()}
    everything = np.concatenate(list(values.values()))
    edges = np.linspace(everything.min(), everything.max(), bins + 1)
    shares = {k: np.histogram(v, edges)[0] / len(v) for k, v in values.items()}
    height = max(s.max() for s in shares.values())
    frame = _Frame((edges[0], edges[-1]), (0.0, height), log)
    body = []
    for colour, (_, share) in zip(COLOURS, shares.items(), strict=False):
        corners = [(edges[0], 0.0)]
        for a, b, s in zip(edges[:-1], edges[1:], share, strict=True):
            corners += [(a, s), (b, s)]
        corners.append((edges[-1], 0.0))
        body.append(
            f'<path d="{frame.path(corners)}" fill="{colour}" fill-opacity=".35" '
            f'stroke="{colour}"/>'
        )
    labels = [f"{k} ({len(v)})" for k, v in values.items()]
    _write(name, title, [*body, *frame.axes(x_title, "share"), *_legend(labels)])


def curves(
    name: str,
    title: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x_title: str,
    y_title: str,
) -> None:
    """Lines y(x)."""
    xs = np.concatenate([np.asarray(x, float) for x, _ in lines.values()])
    ys = np.concatenate([np.asarray(y, float) for _, y in lines.values()])
    frame = _Frame((xs.min(), xs.max()), (ys.min(), ys.max()))
    body = [
        f'<path d="{frame.path(zip(x, y, strict=True))}" fill="none" stroke="{colour}" '
        'stroke-width="2"/>'
        for colour, (x, y) in zip(COLOURS, lines.values(), strict=False)
    ]
    _write(name, title, [*body, *frame.axes(x_title, y_title), *_legend(list(lines))])


def scatters(
    name: str,
    title: str,
    rows: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    *,
    x_title: str,
    y_title: str,
    most: int = 800,
) -> None:
    """Rows of panels of points (x, y) on one scale for both axes, with the line x = y.

    Of more than `most` points some are drawn at equal steps.
    """
    side, gap, body = 190, 54, []
    for i, (row, panels) in enumerate(rows.items()):
        top = 62 + i * (side + 64)
        body.append(_text(6, top - 22, row, anchor="start"))
        for j, (label, (x, y)) in enumerate(panels.items()):
            left = gap + j * (side + gap)
            low = min(float(np.min(x)), float(np.min(y)))
            span = (max(float(np.max(x)), float(np.max(y))) - low) or 1.0
            step = -(-len(x) // most)
            across = left + side * (np.asarray(x)[::step] - low) / span
            down = top + side - side * (np.asarray(y)[::step] - low) / span
            points = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across, down, strict=True))
            body += [
                f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" '
                'stroke="#5f6b7a"/>',
                f'<path d="M{left} {top + side}L{left + side} {top}" stroke="{COLOURS[1]}"/>',
                f'<path d="{points}" stroke="{COLOURS[0]}" stroke-opacity=".5" stroke-width="3" '
                'stroke-linecap="round"/>',
                _text(left, top - 5, label, anchor="start"),
                _text(left, top + side + 14, f"{low:.3g}", anchor="start"),
                _text(left + side, top + side + 14, f"{low + span:.3g}", anchor="end"),
            ]
    bottom = 62 + len(rows) * (side + 64)
    body.append(_text(6, bottom - 20, f"across: {x_title}; up: {y_title}", anchor="start"))
    width = gap + max(map(len, rows.values())) * (side + gap)
    _write(name, title, body, width, bottom - 8)


def heatmaps(
    name: str, title: str, panels: Mapping[str, tuple[Sequence[str], np.ndarray]], cell: int = 52
) -> None:
    """Square matrices with their numbers, side by side."""
    body, left, bottom = [], 0, 0
    for label, (names, matrix) in panels.items():
        margin = 7 * max(map(len, names)) + 8
        body.append(_text(left + margin, 44, label, anchor="start"))
        for i, row in enumerate(names):
            y = 52 + cell * i
            body.append(_text(left + margin - 4, y + cell / 2 + 4, row, anchor="end"))
            column = left + margin + cell * i + cell / 2
            body.append(_text(column, 52 + cell * len(names) + 14 + 12 * (i % 2), row))
            for j, value in enumerate(matrix[i]):
                x = left + margin + cell * j
                body.append(
                    f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{COLOURS[0]}" '
                    f'fill-opacity="{max(0.0, float(value)):.2f}" stroke="#fff"/>'
                )
                ink = "#fff" if value > 0.6 else "#1f2933"
                body.append(_text(x + cell / 2, y + cell / 2 + 4, f"{value:.2f}", ink=ink))
        left += margin + cell * len(names) + 24
        bottom = max(bottom, 52 + cell * len(names) + 34)
    _write(name, title, body, left, bottom)


def galleries(name: str, title: str, rows: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Rows of pictures, each a data URI with its caption."""
    size, body, y = 56, [], 40
    for label, pictures in rows.items():
        body.append(_text(4, y + 8, label, anchor="start"))
        for i, (picture, caption) in enumerate(pictures):
            x = 4 + i * (size + 4)
            body.append(
                f'<image x="{x}" y="{y + 14}" width="{size}" height="{size}" href="{picture}"/>'
            )
            body.append(_text(x + size / 2, y + size + 27, caption))
        y += size + 44
    width = max(4 + len(p) * (size + 4) for p in rows.values())
    _write(name, title, body, max(width, 380), y)


def planes(
    name: str,
    title: str,
    panels: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]],
    window: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """Points of a plane, coloured by a value in [0, 1], over the part of it where a mask is true.

    A panel is points [n, 2], values [n] and a mask [rows, columns] over the window, lowest row
    first, or None.
    """
    (x0, x1), (y0, y1) = window
    width = 230
    height = round(width * (y1 - y0) / (x1 - x0))
    body = []
    for i, (label, (points, values, mask)) in enumerate(panels.items()):
        left, top = 6 + i * (width + 8), 52
        body.append(_text(left, 44, label, anchor="start"))
        body.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" '
            f'fill="{COLOURS[0]}" fill-opacity="{0.0 if mask is None else 0.15}" stroke="#5f6b7a"/>'
        )
        body += [] if mask is None else _runs(mask, left, top, width, height)
        for (x, y), value in zip(points, np.asarray(values, float), strict=True):
            at = left + width * (x - x0) / (x1 - x0), top + height * (y1 - y) / (y1 - y0)
            body.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="2" fill="{_heat(value)}"/>')
    _write(name, title, body, 12 + len(panels) * (width + 8), height + 60)


def maps(
    name: str, title: str, panels: Mapping[str, tuple[np.ndarray, Sequence, Sequence, str]]
) -> None:
    """Colour maps side by side: values [rows, columns], both axes' ticks, the column axis' title.

    Blue is the lowest value of a map, vermilion its highest.
    """
    cell, body = 13, []
    left = bottom = 0
    for label, (values, rows, columns, x_title) in panels.items():
        x0, y0 = left + 44, 56
        low, high = float(values.min()), float(values.max())
        body.append(_text(left + 4, 36, label, anchor="start"))
        body.append(_text(left + 4, 50, f"{low:.4g} (blue) to {high:.4g}", anchor="start"))
        for i, j in np.ndindex(*values.shape):
            share = (values[i, j] - low) / ((high - low) or 1)
            y = y0 + cell * (len(rows) - 1 - i)
            body.append(
                f'<rect x="{x0 + cell * j}" y="{y}" width="{cell}" height="{cell}" '
                f'fill="{_heat(share)}"/>'
            )
        for i in range(0, len(rows), 4):
            y = y0 + cell * (len(rows) - 1 - i) + 10
            body.append(_text(x0 - 4, y, f"{rows[i]:.3g}", anchor="end"))
        bottom = y0 + cell * len(rows)
        for j in range(0, len(columns), 4):
            body.append(_text(x0 + cell * j + 6, bottom + 14, f"{columns[j]:.3g}"))
        body.append(_text(x0 + cell * len(columns) / 2, bottom + 28, x_title))
        left = x0 + cell * len(columns) + 16
    _write(name, title, body, left, bottom + 36)


def _runs(mask: np.ndarray, left: float, top: float, width: float, height: float) -> list[str]:
    """Rectangles over each row's stretches where the mask is true."""
    rows, columns = mask.shape
    found = []
    for i, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.r_[0, row.astype(int), 0])).reshape(-1, 2)
        y = top + height * (rows - 1 - i) / rows
        for start, end in edges:
            found.append(
                f'<rect x="{left + width * start / columns:.1f}" y="{y:.1f}" '
                f'width="{width * (end - start) / columns:.1f}" height="{height / rows:.1f}" '
                f'fill="{COLOURS[1]}" fill-opacity=".25"/>'
            )
    return found


def _heat(share: float) -> str:
    """From blue over white to vermilion; 0 and 1 are the two classes' colours."""
    ends = np.array([[0, 114, 178], [240, 240, 240], [213, 94, 0]], float)
    at = 2 * min(max(share, 0.0), 1.0)
    i = min(int(at), 1)
    red, green, blue = (ends[i] + (at - i) * (ends[i + 1] - ends[i])).round().astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


class _Frame:
    """Data to pixels, and the axes."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], log: bool = False):
        self.x, self.y, self.log = x, y, log

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        return (
            LEFT + across * (WIDTH - LEFT - 24),
            HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP - 18),
        )

    def path(self, points) -> str:
        return "M" + "L".join("{:.1f} {:.1f}".format(*self.at(*p)) for p in points)

    def axes(self, x_title: str, y_title: str) -> list[str]:
        corners = [(self.x[0], self.y[1]), (self.x[0], self.y[0]), (self.x[1], self.y[0])]
        found = [f'<path d="{self.path(corners)}" fill="none" stroke="#5f6b7a"/>']
        for value in np.linspace(*self.x, 5):
            text = f"{10**value:.1e}" if self.log else f"{value:.3g}"
            found.append(_text(self.at(value, 0)[0], HEIGHT - BOTTOM + 15, text))
        for value in np.linspace(*self.y, 4):
            found.append(_text(LEFT - 5, self.at(0, value)[1] + 4, f"{value:.3g}", anchor="end"))
        found.append(_text((LEFT + WIDTH) / 2, HEIGHT - 10, x_title))
        found.append(_text(4, TOP, y_title, anchor="start"))
        return found


def _legend(labels: Sequence[str]) -> list[str]:
    found, x = [], LEFT + 60
    for colour, label in zip(COLOURS, labels, strict=False):
        found.append(f'<rect x="{x}" y="{TOP - 9}" width="9" height="9" fill="{colour}"/>')
        found.append(_text(x + 12, TOP, label, anchor="start"))
        x += 20 + 6 * len(label)
    return found


def _text(x: float, y: float, text: str, *, anchor: str = "middle", ink: str = "#1f2933") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"'
    return f"<text {where}>{escape(text)}</text>"


def _write(name: str, title: str, body: Sequence[str], width: int = WIDTH, height: int = HEIGHT):
    FOLDER.mkdir(exist_ok=True)
    text = "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="16" font-size="13" fill="#1f2933">{escape(title)}</text>',
        *body,
        "</svg>",
    ])
    (FOLDER / f"{name}.svg").write_text(text + "\n", encoding="utf-8")


def signed_map(
    name: str,
    title: str,
    values: np.ndarray,
    box: Sequence[Sequence[float]],
    *,
    x_title: str,
    y_title: str,
    side: int = 320,
) -> None:
    """A value over two inputs, [first input, second input]: blue above 0, orange below."""
    largest = float(np.abs(values).max()) or 1.0
    rows, columns = values.shape[1], values.shape[0]
    body = []
    for (i, j), value in np.ndenumerate(values):
        # Half a pixel more, or the seams between the cells show.
        where = (
            f'x="{LEFT + side * i / columns:.2f}" y="{40 + side * (rows - 1 - j) / rows:.2f}" '
            f'width="{side / columns + 0.5:.2f}" height="{side / rows + 0.5:.2f}"'
        )
        colour = COLOURS[0] if value >= 0 else COLOURS[1]
        body.append(
            f'<rect {where} fill="{colour}" fill-opacity="{abs(float(value)) / largest:.3f}"/>'
        )
    for at, k in ((0.0, 0), (1.0, 1)):
        body.append(_text(LEFT + at * side, 54 + side, f"{box[0][k]:.3g}"))
        body.append(_text(LEFT - 6, 44 + side * (1 - at), f"{box[1][k]:.3g}", anchor="end"))
    body.append(_text(LEFT + side / 2, 56 + side, x_title))
    body.append(_text(LEFT - 14, 44 + side / 2, y_title, anchor="end"))
    span = f"from {values.min():.2g} to {values.max():.2g}; blue above 0, orange below"
    body.append(_text(LEFT, 76 + side, span, anchor="start"))
    _write(name, title, body, LEFT + side + 24, side + 86)
