"""The parameters of a disk that turns, as a table: `hdd` has them all, `array` takes them from a preset of
`hdd`."""

from __future__ import annotations

from blklab.block.models import Parameter, Settings
from blklab.core.errors import BlklabError

SECOND_NS = 1_000_000_000

MECHANICS = (
    Parameter("size", "bytes", 500_107_862_016, "capacity, bytes", 1 << 20),
    Parameter("rpm", "int", 7200, "revolutions a minute", 1000, 30_000),
    Parameter("heads", "int", 4, "recording surfaces", 1, 64),
    Parameter("zones", "int", 20, "zones, from outside to inside", 1, 1024),
    Parameter("outer_sectors", "int", 2000, "sectors of a track of the outermost zone", 8, 1 << 20),
    Parameter("inner_sectors", "int", 1000, "sectors of a track of the innermost zone", 8, 1 << 20),
    Parameter("seek_track_ns", "int", 800_000, "seek to the next track, with settling", 1, SECOND_NS),
    Parameter("seek_average_ns", "int", 8_500_000, "average seek of a read, with settling", 1, SECOND_NS),
    Parameter(
        "seek_full_ns", "int", 0, "seek from end to end; 0: not known, the curve says it", 0, SECOND_NS
    ),
    Parameter("write_settle_ns", "int", 700_000, "what a write settles longer than a read", 0, SECOND_NS),
    Parameter("head_switch_ns", "int", 1_000_000, "change of head, and so the skew of a track", 0, SECOND_NS),
    Parameter(
        "cylinder_switch_ns", "int", 1_200_000, "step to the next cylinder, and so its skew", 0, SECOND_NS
    ),
)

ELECTRONICS = (
    Parameter(
        "link_bytes_per_s", "bytes", 300_000_000, "rate of the link (SATA 3 Gb/s: 300 MB/s)", 1_000_000
    ),
    Parameter("command_ns", "int", 100_000, "time of the disk's processor for a command", 0, SECOND_NS),
    Parameter("segments", "int", 16, "segments of the read buffer", 1, 256),
    Parameter("segment", "bytes", 512 << 10, "size of a segment", 4096, 1 << 30),
    Parameter(
        "readahead", "bytes", 256 << 10, "how far it reads ahead of what was asked for; 0: not", 0, 1 << 30
    ),
    Parameter("window", "int", 0, "commands among which the nearest is chosen; 0: all, 1: in order", 0, 1024),
    Parameter(
        "starve_ns", "int", SECOND_NS, "a command that has waited this long is next", 1_000_000, 1 << 62
    ),
    Parameter("write_cache", "bool", True, "writes are done when they are in the cache"),
    Parameter("cache", "bytes", 8 << 20, "size of the write cache", 4096, 1 << 34),
    Parameter("cache_runs", "int", 256, "runs of sectors that the cache tells apart", 1, 1 << 20),
    Parameter(
        "destage_high", "int", 50, "how full the cache is when its writes compete with reads, percent", 0, 100
    ),
    Parameter(
        "destage_bytes", "bytes", 256 << 10, "largest write from the cache to the media", 4096, 1 << 26
    ),
    Parameter("exclusive_flush", "bool", True, "nothing else is served during a flush (SATA)"),
)

# scsi_mod.use_blk_mq, as of device/scsi.py
USE_BLK_MQ = Parameter(
    "use_blk_mq", "int", -1, "0: the single queue (until 4.20), 1: blk-mq, -1: the kernel's default", -1, 1
)

DISK_PARAMETERS = MECHANICS + ELECTRONICS


def check_disk(settings: Settings, where: str = "hdd") -> None:
    """Raises BlklabError for settings that no disk can have."""
    if settings["readahead"] > settings["segment"]:
        raise BlklabError(
            f"{where}: readahead {settings['readahead']} must fit into a segment, "
            f"which has {settings['segment']} bytes"
        )
    if settings["inner_sectors"] > settings["outer_sectors"]:
        raise BlklabError(
            f"{where}: inner_sectors {settings['inner_sectors']} must not be above outer_sectors, "
            f"which is {settings['outer_sectors']}"
        )
