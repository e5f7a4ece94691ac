"""`python -m datassay`: the command line."""

from datassay.cli import main

main()
