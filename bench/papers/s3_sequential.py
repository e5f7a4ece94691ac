"""The plain way to train a student: one at a time, autograd, torch.optim.Adam."""

from __future__ import annotations

import time

import numpy as np
import torch

from datassay.complexity import SampleComplexity, StudentRecipe, Teachers, draw_networks


def train_one(
    teachers: Teachers, teacher: int, n: int, recipe: StudentRecipe
) -> tuple[torch.Tensor, float]:
    """One student's weights [d, m], and the seconds of one thread that its epochs took."""
    rng = teachers.stream(teacher, n)
    x = torch.as_tensor(rng.standard_normal((2 * n, teachers.n_inputs)))[:n].float()
    y = (x @ torch.as_tensor(teachers.weights(teacher)).float()).relu().sum(1)
    y = y / teachers.width**0.5
    start = draw_networks(rng, 1, teachers.n_inputs, teachers.width)[0]
    w = torch.as_tensor(start).float().requires_grad_()
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.SGD
    optimizer = kind([w], lr=recipe.lr)
    began = time.thread_time()
    for _ in range(recipe.epochs):
        optimizer.zero_grad()
        error = (x @ w).relu().sum(1) / teachers.width**0.5 - y
        loss = error.square().mean() if recipe.reduction == "mean" else error.square().sum()
        (loss / teachers.width if recipe.divisor == "width" else loss).backward()
        optimizer.step()
    return w.detach(), time.thread_time() - began


def sequential_seconds(result: SampleComplexity) -> tuple[float, int]:
    """What all trials of one size would take, from one student at each power of two among its N.

    An N between two powers is charged what the lower one takes, which favours this loop.

    Returns:
        Seconds of one thread for all students, and how many students were trained to tell.
    """
    search = result.search
    teachers = Teachers(result.n_inputs, result.width, search.seed)
    powers = 2 ** np.floor(np.log2(result.trial_samples)).astype(int)
    seconds = {n: train_one(teachers, 0, n, search.recipe)[1] for n in np.unique(powers).tolist()}
    each = np.array([seconds[n] for n in powers.tolist()])
    return float(each.sum()) * search.n_students, len(seconds)
