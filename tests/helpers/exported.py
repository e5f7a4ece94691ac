"""Finished runs of every kind of data, to export."""

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from helpers.command_line import succeed
from helpers.shared import share

EVIL = "<script>alert('&')</script>"


@cache
def data():
    """Images in an array and in a folder, texts and a table with an evil label."""
    folder = Path(mkdtemp())
    digits = load_digits()
    images, y = digits.images[:60].astype(np.float32), digits.target[:60] % 2
    y[:4] = 1 - y[:4]
    np.savez(folder / "images.npz", x=images, y=y, class_names=[EVIL, "odd one"])
    for i, image in enumerate(images[:30]):
        path = folder / "photos" / ("odd", "even ä")[i % 2] / f"{i} x.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(path)
    draw = np.random.default_rng(0)
    rows = [f"{i},{a:.3f},{b:.3f},{EVIL if a + b > 0 else 'fine'}"
            for i, (a, b) in enumerate(draw.normal(size=(240, 2)))]  # fmt: skip
    for duplicate in (6, 7):
        rows[duplicate] = f"{duplicate}," + rows[5].partition(",")[2]
    (folder / "table.csv").write_text("key,a,b,kind\n" + "\n".join(rows) + "\n")
    words = ["red fox", "old hat", "big sea", "new day", "low sun"]
    texts = [
        {"text": f"{' '.join(draw.choice(words, 3))} {('bad', 'good')[i % 2]}", "y": "ny"[i % 2]}
        for i in range(60)
    ]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)) + "\n")
    return share(folder)


@cache
def runs():
    """A finished run of each; the table's holds samples out."""
    out = Path(mkdtemp())
    fast = ("--model", "linear", "--seed", 1)
    table = ("--target", "kind", "--ids", "key", "--val-fraction", 0.2, "--noise", 0.1)
    succeed("score", data() / "images.npz", *fast, "--out", out / "images")
    succeed("score", data() / "photos", *fast, "--out", out / "photos", "--noise", 0.1)
    succeed("score", data() / "texts.jsonl", *fast, "--target", "y", "--text", "text",
            "--out", out / "texts")  # fmt: skip
    succeed("score", data() / "table.csv", *fast, *table, "--out", out / "table")
    succeed("score", "diabetes", *fast, "--out", out / "numbers")
    return share(out)


def export(run, to, out, *options):
    """Export one of these runs."""
    return succeed("export", run, "--to", to, "--out", out, *options)


def size_of(path):
    """Width and height of an image file."""
    with Image.open(path) as image:
        return image.size
