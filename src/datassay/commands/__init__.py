"""The command line: `app` for tests and other programs, `main` for the shell."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.commands.app import app as app
    from datassay.commands.app import main as main
    from datassay.commands.command import Command as Command
    from datassay.commands.facts import seed_facts as seed_facts
    from datassay.commands.run.command import write_results as write_results
    from datassay.commands.run.job import run as run
    from datassay.commands.run.settings import RunSettings as RunSettings
    from datassay.commands.run.steps.plan import plan as plan
    from datassay.commands.shell import out_console as out_console
    from datassay.commands.terminal import rows_table as rows_table

make_public(__name__)
