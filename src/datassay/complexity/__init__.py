"""How many samples a network needs: teachers and students (S3, chapter 2), learning curves."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.methods.complexity.accuracy_curve import AccuracyCurve as AccuracyCurve
    from datassay.methods.complexity.accuracy_curve import accuracy_curve as accuracy_curve
    from datassay.methods.complexity.accuracy_curve import nested_order as nested_order
    from datassay.methods.complexity.curve_law import CurveLaws as CurveLaws
    from datassay.methods.complexity.laws import Law as Law
    from datassay.methods.complexity.laws import fit_joint_law as fit_joint_law
    from datassay.methods.complexity.laws import fit_laws as fit_laws
    from datassay.methods.complexity.needed_samples import Extrapolation as Extrapolation
    from datassay.methods.complexity.needed_samples import NeededSamples as NeededSamples
    from datassay.methods.complexity.needed_samples import extrapolate as extrapolate
    from datassay.methods.complexity.needed_samples import forecast as forecast
    from datassay.methods.complexity.sample_complexity import SampleComplexity as SampleComplexity
    from datassay.methods.complexity.sample_complexity import Search as Search
    from datassay.methods.complexity.sample_complexity import recovery_r2 as recovery_r2
    from datassay.methods.complexity.sample_complexity import sample_complexity as sample_complexity
    from datassay.methods.complexity.table import ComplexityTable as ComplexityTable
    from datassay.methods.complexity.table import complexity_table as complexity_table
    from datassay.methods.complexity.teacher_student import StudentRecipe as StudentRecipe
    from datassay.methods.complexity.teacher_student import draw_networks as draw_networks
    from datassay.methods.complexity.teacher_student import train_students as train_students
    from datassay.methods.complexity.training_procedure import Teachers as Teachers
    from datassay.train.learner import Estimators as Estimators
    from datassay.train.learner import Learner as Learner
    from datassay.train.learner import Networks as Networks

make_public(__name__)
