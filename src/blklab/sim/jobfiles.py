"""The files of a run's jobs: which device or file each name means, and files made on volumes before the first I/O.

What: `JobFiles` gives for each clone its targets (queue, file or None) and their sizes. Why apart from run.py: fio
makes all files before it starts the first thread, and what a name means depends on the machine's volumes.

Theory of operation
-------------------
A name below the mount of a volume is a file there; any other is a device. Without filename a job in a directory
has files of its own, named as fio does (workload/filesetup.py). Names that several clones or jobs use are one
file, which is as large as the largest wants it. Files are laid out in the order in which fio makes them: job by
job, clone by clone.

Where the machine has no volume, `directory` means nothing, and a job without filename works on the first device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from blklab.core.errors import BlklabError
from blklab.workload.filesetup import created_size, file_names

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.sim.build import BuiltMachine
    from blklab.sim.filemap import FileMap
    from blklab.sim.volume import Volume
    from blklab.workload.jobspec import Clone, JobSpec


class Target(NamedTuple):
    """What one of a clone's files is: a file of a volume, or the whole of a device."""

    queue: RequestQueue
    size_bytes: int
    file: FileMap | None


class JobFiles:
    """Raises BlklabError for a name that means nothing, and for files that cannot be made."""

    def __init__(self, built: BuiltMachine, clones: Sequence[Clone]) -> None:
        self.built = built
        self.notes: list[str] = []
        wanted: dict[str, tuple[Volume, int, str]] = {}
        sizes: dict[tuple[int, int], int] = {}
        for clone in clones:
            if clone.spec.ioengine == "null":
                continue
            for index, name in enumerate(self._names(clone.spec, clone.clone)):
                volume = self._volume(name, clone.spec.where)
                if volume is None:
                    continue
                now = wanted[name][1] if name in wanted else 0
                size = created_size(clone.spec, clone.clone, index, now, name)
                sizes[clone.job_number, index] = size
                wanted[name] = (volume, max(now, size), clone.spec.where)
        self.files = {
            name: volume.create(name, size, where) for name, (volume, size, where) in wanted.items()
        }
        self.sizes = sizes

    def queues(self, spec: JobSpec, clone: int = 0) -> list[RequestQueue]:
        """The devices that a clone of the job works on, one for each of its files."""
        built = self.built
        names = self._names(spec, clone)
        if not names:
            return built.tops[:1]
        found = []
        for name in names:
            volume = self._volume(name, spec.where)
            found.append(built.queue(name, spec.where) if volume is None else volume.queue)
        return found

    def targets(self, clone: Clone) -> list[Target]:
        """The files of a clone, in order."""
        if clone.spec.ioengine == "null":
            queue = self.built.tops[0]
            return [Target(queue, queue.size_sectors << 9, None)]
        targets = []
        names: Sequence[str] = self._names(clone.spec, clone.clone) or ("",)
        for index, queue in enumerate(self.queues(clone.spec, clone.clone)):
            file = self.files.get(names[index])
            size = queue.size_sectors << 9 if file is None else self.sizes[clone.job_number, index]
            targets.append(Target(queue, size, file))
        return targets

    def in_files(self, spec: JobSpec) -> bool:
        """Whether the job works on files of volumes."""
        return any(name in self.files for name in self._names(spec, 0))

    def _names(self, spec: JobSpec, clone: int) -> Sequence[str]:
        if spec.directories and not self.built.volumes:
            note = f"directory={':'.join(spec.directories)} has no effect: the machine has no [volume.NAME]"
            if note not in self.notes:
                self.notes.append(note)
            return spec.filenames
        return file_names(spec, clone)

    def _volume(self, name: str, where: str) -> Volume | None:
        if not name.startswith("/"):
            return None
        fits = [v for v in self.built.volumes if name.startswith(v.config.mount + "/")]
        if not fits:
            mounts = ", ".join(volume.config.mount for volume in self.built.volumes)
            have = f"it has volumes on {mounts}" if mounts else "it has no [volume.NAME]"
            raise BlklabError(
                f"the machine {self.built.machine.name} has no volume that {name} is on; {have}", where
            )
        return max(fits, key=lambda volume: len(volume.config.mount))
