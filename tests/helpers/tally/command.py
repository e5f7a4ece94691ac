"""`datassay tally`."""

from datassay.commands.command import Command
from helpers.tally.settings import TallySettings

COMMAND = Command(
    name="tally",
    help="""Count the samples of each class.

    Examples:
      datassay tally digits --fewest 100
    """,
    settings=TallySettings,
    home="helpers.tally",
    out="tallied",
)
