"""`python -m datassay`: the command line."""

from datassay.commands import main

main()
