"""Reviews of small runs: a folder as `score` leaves it, and a server for it."""

import http.client
import json
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np

import datassay as da
from datassay.commands.finished import finished_run, origin_of
from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.commands.run.command import write_results
from datassay.commands.run.job import run
from datassay.commands.run.settings import ScoreSettings
from datassay.commands.view.finish import Finish
from datassay.commands.view.open import reviewed_run
from datassay.commands.view.server import ReviewServer, ServedPage
from datassay.commands.view.session import Session
from datassay.score.labels import judges
from helpers.findings import EVIL, digit_samples

NAMES = ("cat", EVIL, "dog & co")


def blobs(folder, n=90, kind="npz", seed=0):
    """Samples, a tenth of the labels wrong, in a file of its own: points, digits, or a table."""
    draw = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    x = draw.normal(size=(n, 4)) + 4 * np.eye(4)[truth]
    y = truth.copy()
    wrong = draw.permutation(n)[: n // 10]
    y[wrong] = (truth[wrong] + 1) % 3
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"points.{kind}"
    if kind == "digits":
        samples, path = digit_samples(n), folder / "digits.npz"
        ids = np.array([f"<i>{i}" for i in samples.ids])
        np.savez(path, x=samples.x, y=samples.y, class_names=samples.class_names, ids=ids)
    elif kind == "several":
        several = np.stack([truth == 0, truth < 2], 1).astype(int)
        several[wrong] = 1 - several[wrong]
        path = folder / "several.npz"
        np.savez(path, x=x, y=several)
    elif kind == "many":
        names = [f"a fault of the bearing number {k:02d}, drive end" for k in range(20)]
        truth, place = np.arange(n) % 20, 3 * draw.normal(size=(20, 6))
        y = np.where(draw.random(n) < 0.08, draw.integers(0, 20, n), truth)
        path = folder / "many.npz"
        np.savez(path, x=place[truth] + draw.normal(size=(n, 6)), y=y, class_names=names)
    elif kind == "npz":
        ids = np.array([f"<i>{i}" for i in range(n)])
        np.savez(path, x=x, y=y, class_names=NAMES, ids=ids)
    elif kind == "numbers":
        path = folder / "points.csv"
        lines = [",".join([*(f"{v:.3f}" for v in row), f"{4 * row.sum() + (40 if w else 0):.3f}"])
                 for row, w in zip(x, np.isin(np.arange(n), wrong), strict=True)]  # fmt: skip
        path.write_text("\n".join(["a,b,c,d,y", *lines]))
    else:
        path = folder / "points.csv"
        lines = [
            f"key{i},{a:.3f},{b:.3f},{'<b>' if c > 1 else 'no'},shop{i % 2},{NAMES[k]}"
            for i, (a, b, c, _), k in zip(range(n), x, y, strict=True)
        ]
        path.write_text("\n".join(["key,a,b,word,shop,y", *lines]))
    return path


def scored(folder, data, **inputs):
    """A finished run of some data; gives its folder."""
    given = DataInputs(data=str(data), val_fraction=0.0, **inputs)
    train, val = da.load(data, val_fraction=0.0, **inputs)
    train = replace(train, y=train.y.copy())  # torch warns of what Arrow lends
    with patch.object(judges, "MOST_SPLITS", 1):
        findings = run(train, val, ScoreSettings(model="linear", attribution="none"))
    write_results(replace(findings, origin=origin_of(given, NoiseInputs())), folder)
    return folder


def copied(folder, to):
    """A run and the data beside it, to be changed; it reads its data where they were."""
    shutil.copytree(folder.parent, to)
    return to / folder.name


def session_of(folder, data=None, reviewer=""):
    return Session(*reviewed_run(finished_run(folder), data), folder, reviewer)


@contextmanager
def served(folder, reviewer="", command=""):
    """A server of the run in a folder, in a thread of this process."""
    page = ServedPage((folder / "index.html").read_text(encoding="utf-8"), "index.html")
    session = session_of(folder, reviewer=reviewer)
    finish = Finish(session, str(session.reviewed.inputs["data"]), command)
    with ReviewServer(session, page, 0, finish) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, body=None, method=None, **headers):
    """(status, what was answered, headers); as the page asks, unless headers say otherwise."""
    own = {"X-Datassay-Token": server.token}
    if body is not None:
        own |= {"Content-Type": "application/json"}
        body = body if isinstance(body, bytes | str) else json.dumps(body)
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    method = method or ("GET" if body is None else "POST")
    connection.request(method, path, body, {k: v for k, v in own.items() if v is not None})
    answer = connection.getresponse()
    text, status = answer.read(), answer.status
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return status, json.loads(text) if is_json and text else text.decode(), answer.headers


@contextmanager
def viewing(folder, *options):
    """`datassay view` as a process of its own; gives it and the address that it prints."""
    call = [sys.executable, "-m", "datassay", "view", str(folder), "--no-browser", *options]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = []
        while not (lines and lines[-1].startswith("http://")):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        yield process, lines[-1].strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ready(browser, url):
    """Open a review and wait until it can be used."""
    browser.get("about:blank")  # the same address with a fragment would not load again
    browser.get_log("browser")
    browser.get(url)
    until(browser, "return document.getElementById('reviewing').dataset.ready === 'true'")
    focus(browser)


def focus(browser):
    browser.execute_script("document.querySelector('[data-part=stage]').focus()")


def until(browser, script, seconds=120):
    """Wait until a script gives something true; gives it."""
    end = time.monotonic() + seconds
    while not (result := browser.execute_script(script)):
        assert time.monotonic() < end, script
        time.sleep(0.02)
    return result


def part(browser, name):
    """The text of a part of the review."""
    script = f"return document.querySelector('[data-part={name}]').textContent"
    return browser.execute_script(script)


def press(browser, *keys):
    """Type keys wherever the focus is."""
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(browser, duration=0).send_keys(key).perform()


def shown_id(browser):
    return part(browser, "place").partition(" · id ")[2].partition(" · ")[0]
