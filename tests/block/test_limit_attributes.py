"""The attributes of limits, written and refused as in sysfs."""

from __future__ import annotations

import pytest

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.driver import Driver
from blklab.block.queue import RequestQueue
from blklab.core.errors import AttributeRefused
from blklab.lab.rig import Rig
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue


class Stacked(Driver):
    """A device that takes bios."""

    def __init__(self) -> None:
        super().__init__()
        self.bio_based = True

    def attach(self, queue: RequestQueue) -> None:
        super().attach(queue)
        queue.limits.set_stacking_defaults()
        queue.limits.set_max_hw_sectors(8192, 2560)


def stacked() -> RequestQueue:
    return RequestQueue("dm-0", 1, MachineHost(EventQueue(), 1), Stacked(), None, Rig().queue.features)


def refused(queue: RequestQueue, path: str, value: str) -> tuple[str, str]:
    with pytest.raises(AttributeRefused) as error:
        write(queue, path, value)
    return error.value.errno, error.value.message


def test_max_sectors_kb_is_from_a_page_to_what_host_and_device_take() -> None:
    # Case 29: a value above max_hw_sectors_kb is rejected
    queue = Rig().queue
    queue.limits.set_max_hw_sectors(8192, 2560)

    assert refused(queue, "queue/max_sectors_kb", "4097") == (
        "EINVAL",
        "4097 is above max_hw_sectors_kb, which is 4096 (EINVAL)",
    )
    assert refused(queue, "queue/max_sectors_kb", "3")[0] == "EINVAL"
    assert refused(queue, "queue/max_sectors_kb", "1m")[0] == "EINVAL"
    assert read(queue, "queue/max_sectors_kb") == 1280
    write(queue, "queue/max_sectors_kb", "128")
    assert (queue.limits.max_sectors, read(queue, "queue/max_hw_sectors_kb")) == (256, 4096)
    queue.limits.max_dev_sectors = 1024
    assert refused(queue, "queue/max_sectors_kb", "513")[0] == "EINVAL"
    write(queue, "queue/max_sectors_kb", "512")


def test_discard_max_bytes_is_whole_granules_and_capped_at_the_hardware() -> None:
    queue = Rig().queue
    assert refused(queue, "queue/discard_max_bytes", "4096")[0] == "EINVAL"  # no granularity: nothing but 0
    write(queue, "queue/discard_max_bytes", "0")
    queue.limits.discard_granularity_bytes = 4096
    queue.limits.set_max_discard(2048)

    assert refused(queue, "queue/discard_max_bytes", "6144")[0] == "EINVAL"
    assert refused(queue, "queue/discard_max_bytes", str(1 << 42))[0] == "EINVAL"
    write(queue, "queue/discard_max_bytes", str(1 << 30))
    assert read(queue, "queue/discard_max_bytes") == 1048576
    write(queue, "queue/discard_max_bytes", "0")  # how an administrator turns discards off
    assert (queue.limits.max_discard_sectors, read(queue, "queue/discard_max_hw_bytes")) == (0, 1048576)


@pytest.mark.parametrize(
    "path",
    [
        "max_hw_sectors_kb",
        "max_segments",
        "max_segment_size",
        "discard_granularity",
        "write_zeroes_max_bytes",
        "chunk_sectors",
    ],
)
def test_what_the_driver_says_cannot_be_written(path: str) -> None:
    assert refused(Rig().queue, f"queue/{path}", "8")[0] == "EACCES"


def test_alignment_is_shown_as_bytes_or_minus_one() -> None:
    queue = Rig().queue
    queue.limits.set_physical_block(4096)
    queue.limits.alignment_offset_bytes = 512
    queue.limits.discard_alignment_bytes = 1024
    assert (read(queue, "alignment_offset"), read(queue, "discard_alignment")) == (512, 1024)

    part = RequestQueue("nullb0p1", 2, queue.host, Stacked(), None, queue.features)
    part.whole = queue
    part.start_sector = 3
    assert read(part, "alignment_offset") == 4096 + 512 - 3 * 512
    assert not any(path.startswith("queue/") for path in attribute_paths(part))

    queue.limits.misaligned = True
    assert read(queue, "alignment_offset") == -1


def test_a_device_that_takes_bios_has_no_scheduler_and_no_requests() -> None:
    queue = stacked()

    assert read(queue, "queue/scheduler") == "none"
    write(queue, "queue/scheduler", "no such thing")  # taken and ignored, as there
    assert read(queue, "queue/scheduler") == "none"
    assert refused(queue, "queue/nr_requests", "64")[0] == "EINVAL"
    assert read(queue, "queue/nr_requests") == 128
    assert "queue/io_timeout" not in attribute_paths(queue)
    write(queue, "queue/max_sectors_kb", "64")
    assert queue.limits.max_sectors == 128
