"""`datassay` and `python -m datassay`: the command line."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While the command line is imported, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from datassay.commands import main

if __name__ == "__main__":
    main()
