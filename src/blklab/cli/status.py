"""Exit statuses of `blklab`, beside 0."""

EXIT_BUG = 1
EXIT_USAGE = 2  # the user's input is wrong
EXIT_INTERRUPTED = 130  # as shells have it for SIGINT; a run has given its results so far
EXIT_PIPE = 141  # as shells have it for SIGPIPE
