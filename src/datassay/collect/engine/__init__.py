"""Where chunks are computed: this process, local processes, a Ray cluster."""
