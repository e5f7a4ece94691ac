"""What people pass first: an estimator, arrays, one network for a list. Each is one clear line."""

import subprocess
import sys

import pytest

# A process of its own: here beartype would refuse these before the library does.
SCRIPT = """
import datassay as da
from datassay import *
from datassay.act import removal_curve, reweight
from datassay.score import group_information
from datassay.train import retrain
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import Dataset

train, val = da.load("iris")
estimator, net = LogisticRegression(), nn.Sequential(nn.Linear(4, 3))
lin = da.collect(net, train)
for call in {calls}:
    try:
        eval(call)
        print("taken")
    except da.DatassayError as error:
        print(type(error).__name__, error)
"""
NO_MODULE = "ModelError the model must be a torch.nn.Module; got a LogisticRegression."
NO_SET = (
    "DataError train must be a SampleSet, a pair (x, y), a data frame or a Dataset of pairs; got"
)
NO_LIST = "SettingError models must hold one network per seed; got one Sequential. Pass a list."
CALLS = {
    "collect(estimator, train)": NO_MODULE, "influence(estimator, train)": NO_MODULE,
    "influence_moments(estimator, train)": NO_MODULE, "purify(estimator, train)": NO_MODULE,
    "retrain(estimator, train, lr=0.1)": NO_MODULE, "reweight(estimator, train, val)": NO_MODULE,
    "collect(net, train.x)": NO_SET, "influence(net, train.x)": NO_SET,
    "partition(net, train.x)": NO_SET, "purify(net, train.x)": NO_SET,
    "removal_effects(net, train.x)": NO_SET, "index(net, Dataset())": NO_SET,
    "removal_curve(net, train, val, {})": NO_LIST,
    "removal_curve([net], train, val, [0])": "SettingError rankings must be a dictionary",
    "Backbone(3)(train, val)": "SettingError name must be a string; got 3.",
    "Backbone('lite0')(train.x, val)": NO_SET,
    "leave_one_out(net)": "SettingError lin must be a Linearization; got a Sequential. collect(",
    "leave_one_out(lin, lr=None)": "SettingError lr must be a number or a string; got None.",
    "leave_one_out(lin, steps='many')": "SettingError steps must be a whole number; got 'many'.",
    "leave_one_out(lin, steps=2.5)": "SettingError steps must be a whole number of at least 1",
    "group_information(lin, [[0]], lr=[1])": "SettingError lr must be a number or a string; got a",
    "sample_information(lin, loo=lin)": "SettingError loo must be a LeaveOneOut or None; got a Lin",
    "sample_information(lin, smoothing=3)": "SettingError smoothing must be a name, an array or ",
    "label_issues(train)": "SettingError label_issues of samples needs a judge: model=HistGradien",
    "attribution(lin, measure=3)": "SettingError measure must be a string; got 3.",
    "collect(net, train, memory='1 GB')": "SettingError memory must be a number or None; got '1 G",
    "summarize(lin, 'half')": "SettingError fraction must be a number; got 'half'.",
    "summarize(lin, 0.5, iterative='no')": "SettingError iterative must be True or False; got 'no'",
    "partition(net, train, n_blocks='two')": "SettingError n_blocks must be a whole number or None",
    "build_model('mlp', train.x)": NO_SET,
    "retrain(net, train, lr=0.1, removed='abc')": "SettingError removed must hold positions in 0.",
    "retrain(net, train, lr=0.1, removed=[0.5])": "SettingError removed must hold positions in 0.",
    "retrain(net, train, lr=0.1, store=3)": "SettingError store must be a string or a path or None",
    "PolynomialRegressor(degree='x').fit(train.x, train.y)": "SettingError degree must be a whole",
    "Purifier(ridge='x').fit_resample(train.x, train.y)": "SettingError ridge must be a number",
    "PartitionedClassifier(n_blocks='x').fit(train.x, train.y)": "SettingError n_blocks must be",
}  # fmt: skip


@pytest.mark.slow
def test_one_clear_line():
    command = [sys.executable, "-c", SCRIPT.format(calls=list(CALLS))]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for (call, message), line in zip(CALLS.items(), output, strict=True):
        assert line.startswith(message), call
