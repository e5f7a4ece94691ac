"""What is refused before any work is done."""

from __future__ import annotations

import math
import sys

from datassay.collect.engine.processes import check_engine
from datassay.collect.jacobian.inputs import check_device
from datassay.commands.run.settings import RunSettings
from datassay.errors import SettingError
from datassay.score.compare.projection_quality import check_correlation
from datassay.score.compare.retraining_check import FEWEST
from datassay.score.effects import OUTCOMES, check_top
from datassay.score.information.average import FEWEST_DRAWS, check_memory
from datassay.score.labels.noise import NOISES
from datassay.score.linear.training_run import check_dynamics
from datassay.score.sample_information import check_smoothing
from datassay.store.location import check_place

MOST_NETWORKS = 1000
ATTRIBUTIONS = ("auto", "none", *OUTCOMES)
ATTRIBUTED_AT = ("start", "trained")


def check_settings(settings: RunSettings, n_samples: int) -> None:
    """Refuse, before any work is done, what can be judged by the number of samples.

    Raises:
        SettingError: a setting is outside its rule.
    """
    _check_retraining(settings)
    if settings.subsets and settings.subsets < FEWEST_DRAWS:
        raise SettingError(
            f"subsets must be at least {FEWEST_DRAWS} a size, so that every sample is drawn twice, "
            f"or 0 for none; got {settings.subsets}."
        )
    if settings.store is not None:
        check_place(settings.store)
    check_memory(settings.subsets, n_samples)
    check_engine(settings.engine, settings.workers, settings.address)
    check_smoothing(settings.smoothing, settings.sigma, settings.batch_size)
    check_top(settings.top)
    check_device(settings.device)
    if settings.label_noise not in NOISES:
        raise SettingError(
            f"label-noise must be one of {', '.join(NOISES)}; got {settings.label_noise!r}."
        )
    _check_attribution(settings)
    if settings.rank_correlation is not None:
        check_correlation(settings.rank_correlation)
        if settings.projection != "auto":
            raise SettingError(
                "rank_correlation chooses the projection, which must then be auto; got "
                f"{settings.projection}. Leave one of them out."
            )
    if settings.memory is not None and not 0 < settings.memory < math.inf:
        raise SettingError(
            f"memory must be a positive, finite number of gigabytes; got "
            f"{settings.memory / 1e9:g}. Leave it out to use what is free."
        )
    # The kernel is not known yet: with the smallest eigenvalue only the other rules can fail.
    named = {"kind" if k == "dynamics" else k: v for k, v in settings.dynamics_settings.items()}
    check_dynamics(sys.float_info.min, 2, **named)


def _check_attribution(settings: RunSettings) -> None:
    if settings.attribution not in ATTRIBUTIONS:
        names = ", ".join(ATTRIBUTIONS)
        raise SettingError(f"attribution must be one of {names}; got {settings.attribution!r}.")
    if settings.attribution_at not in ATTRIBUTED_AT:
        raise SettingError(
            f"attribution_at must be start or trained; got {settings.attribution_at!r}."
        )
    if settings.attribution_at == "trained" and not settings.curve_seeds:
        raise SettingError(
            "attribution_at trained needs networks that were trained; got curve_seeds 0. Set it to "
            "at least 1, or attribution_at to start."
        )


def _check_retraining(settings: RunSettings) -> None:
    if settings.curve_seeds < 0:
        raise SettingError(
            f"curve_seeds must be at least 0; got {settings.curve_seeds}. 0 retrains nothing."
        )
    if not settings.budget >= 0:
        raise SettingError(f"budget must be at least 0 seconds, or inf; got {settings.budget}.")
    if settings.curve_seeds > MOST_NETWORKS:
        raise SettingError(
            f"curve_seeds must be at most {MOST_NETWORKS:,} networks a point; got "
            f"{settings.curve_seeds:,}."
        )
    if settings.check and settings.check < FEWEST:
        raise SettingError(
            f"check must be at least {FEWEST} samples, or 0 for none; got {settings.check}."
        )
    if settings.check and settings.dynamics == "converged":
        raise SettingError(
            "check retrains by as many updates as the linearised run has; a converged one has no "
            "number. Take dynamics flow or descent."
        )
