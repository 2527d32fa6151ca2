"""Numbers with names in `iostream`: directions, generators, file services; compiled, they come from stream_ids.pxd."""

READ, WRITE, TRIM = 0, 1, 2

# First words of the generators' states; those of lengths and of percentage_random are three, one a direction.
G_BLOCK, G_MIX, G_FILE, G_BS, G_SEQUENTIAL = 0, 5, 10, 15, 30

SERVICE_ROUNDROBIN, SERVICE_SEQUENTIAL, SERVICE_RANDOM = 0, 1, 2

# What the search for the next file may answer instead of one.
NO_FILE, BUSY = -1, -2
