cdef enum:
    READ = 0
    WRITE = 1
    TRIM = 2

cdef enum:
    G_BLOCK = 0
    G_MIX = 5
    G_FILE = 10
    G_BS = 15
    G_SEQUENTIAL = 30

cdef enum:
    SERVICE_ROUNDROBIN = 0
    SERVICE_SEQUENTIAL = 1
    SERVICE_RANDOM = 2

cdef enum:
    NO_FILE = -1
    BUSY = -2
