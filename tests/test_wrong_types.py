"""What people pass first: an estimator, arrays, one network for a list. Each is one clear line."""

import subprocess
import sys

# A process of its own: here beartype would refuse these before the library does.
SCRIPT = """
import datassay as da
from sklearn.linear_model import LogisticRegression
from torch import nn

train, val = da.load("iris")
estimator, net = LogisticRegression(), nn.Sequential(nn.Linear(4, 3))
for call in {calls}:
    try:
        eval("da." + call)
        print("taken")
    except da.DatassayError as error:
        print(type(error).__name__, error)
"""
NO_MODULE = "ModelError the model must be a torch.nn.Module; got a LogisticRegression."
NO_SET = "DataError train must be a SampleSet; got a ndarray. load((x, y)) makes"
NO_LIST = "SettingError models must hold one network a seed; got one Sequential. Pass a list."
CALLS = {
    "collect(estimator, train)": NO_MODULE,
    "influence(estimator, train)": NO_MODULE,
    "influence_moments(estimator, train)": NO_MODULE,
    "purify(estimator, train)": NO_MODULE,
    "retrain(estimator, train, lr=0.1)": NO_MODULE,
    "reweight(estimator, train, val)": NO_MODULE,
    "collect(net, train.x)": NO_SET,
    "influence(net, train.x)": NO_SET,
    "partition(net, train.x)": NO_SET,
    "purify(net, train.x)": NO_SET,
    "removal_effects(net, train.x)": NO_SET,
    "removal_curve(net, train, val, {})": NO_LIST,
}


def test_one_clear_line():
    command = [sys.executable, "-c", SCRIPT.format(calls=list(CALLS))]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for (call, message), line in zip(CALLS.items(), told, strict=True):
        assert line.startswith(message), call
