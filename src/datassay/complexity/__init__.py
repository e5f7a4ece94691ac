"""How many samples a network needs: teachers and students (S3, chapter 2), learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.complexity.accuracy_curve import AccuracyCurve as AccuracyCurve
    from datassay.complexity.accuracy_curve import accuracy_curve as accuracy_curve
    from datassay.complexity.accuracy_curve import nested_order as nested_order
    from datassay.complexity.curve_law import CurveLaws as CurveLaws
    from datassay.complexity.laws import Law as Law
    from datassay.complexity.laws import fit_joint_law as fit_joint_law
    from datassay.complexity.laws import fit_laws as fit_laws
    from datassay.complexity.needed_samples import Extrapolation as Extrapolation
    from datassay.complexity.needed_samples import NeededSamples as NeededSamples
    from datassay.complexity.needed_samples import extrapolate as extrapolate
    from datassay.complexity.needed_samples import forecast as forecast
    from datassay.complexity.sample_complexity import SampleComplexity as SampleComplexity
    from datassay.complexity.sample_complexity import Search as Search
    from datassay.complexity.sample_complexity import recovery_r2 as recovery_r2
    from datassay.complexity.sample_complexity import sample_complexity as sample_complexity
    from datassay.complexity.table import ComplexityTable as ComplexityTable
    from datassay.complexity.table import complexity_table as complexity_table
    from datassay.complexity.teacher_student import StudentRecipe as StudentRecipe
    from datassay.complexity.teacher_student import draw_networks as draw_networks
    from datassay.complexity.teacher_student import train_students as train_students
    from datassay.complexity.training_procedure import Teachers as Teachers
    from datassay.train.learner import Estimators as Estimators
    from datassay.train.learner import Learner as Learner
    from datassay.train.learner import Networks as Networks

make_public(__name__)
