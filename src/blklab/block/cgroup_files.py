"""The files of a control group: what a user reads and writes below /sys/fs/cgroup, under the kernel's names.

What: a table of files (`CgroupFile`), filled by those who own them: the statistics that every group has
(cgroup_stat.py), and each policy. Which of them a group shows depends on the version of its tree, on whether it is
the root, and on the kernel.

Theory of operation
-------------------
A policy's module has a literal tuple of `CgroupFile` and gives it to `register_files` when it is loaded. `read_file`
and `write_file` find the file by name; what the kernel would refuse is refused with its errno word and with what
would be accepted. Lines for one device begin with its name, or with its MAJ:MIN as the kernel shows it.

Deliberate differences: a device may be written by name, as nobody knows the numbers that a machine of the future will
have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from blklab.core.errors import BlklabError, nearest

if TYPE_CHECKING:
    from blklab.block.cgroup import Cgroup, CgroupTree
    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue


class CgroupFile(NamedTuple):
    """One file. `versions`: of the tree, in which it exists. `get` gives its content (lines without the last
    newline), None: it cannot be read; `set` takes what was written, None: it cannot be written. `exists`: in which
    kernels."""

    name: str
    versions: tuple[int, ...]
    help: str
    get: Callable[[Cgroup, CgroupTree], str] | None = None
    set: Callable[[Cgroup, str, CgroupTree], None] | None = None
    on_root: bool = True
    exists: Callable[[Features], bool] | None = None


# The modules that have files; each registers its own when it is loaded, which is when the first file is asked for
CGROUP_MODULES = (
    "block.cgroup_stat",
    "rqos.ioprio",
    "rqos.io_weight",
    "elevator.bfq.cgroup",
    "rqos.throttle_files",
    "elevator.cfq.files",
)

# policy -> its files
_FILES: dict[str, tuple[CgroupFile, ...]] = {}


def register_files(policy: str, files: tuple[CgroupFile, ...]) -> None:
    """These are the files of `policy`; a second call replaces them. A copy of a scheduler, loaded by its path,
    registers them for the original too, so their functions may not ask for the class of what a policy keeps."""
    _FILES[policy] = files


def all_files() -> list[CgroupFile]:
    """Every file that there is, of either version."""
    for name in CGROUP_MODULES:
        importlib.import_module(f"blklab.{name}")
    return [file for files in _FILES.values() for file in files]


def device_line(text: str, tree: CgroupTree) -> tuple[RequestQueue, str]:
    """A line for one device: its queue, and what follows the name. Raises BlklabError if it names none."""
    name, _, rest = text.strip().partition(" ")
    return tree.queue(name.removeprefix("/dev/")), rest.strip()


def files_of(cgroup: Cgroup, tree: CgroupTree, features: Features | None = None) -> dict[str, CgroupFile]:
    """The files that a group has, by name."""
    found = {}
    for file in all_files():
        if tree.version not in file.versions or (cgroup.is_root and not file.on_root):
            continue
        if file.exists is not None and features is not None and not file.exists(features):
            continue
        found[file.name] = file
    return found


def _find(cgroup: Cgroup, tree: CgroupTree, name: str, features: Features | None, where: str) -> CgroupFile:
    known = files_of(cgroup, tree, features)
    if name in known:
        return known[name]
    same = [file for file in all_files() if file.name == name]
    if same:
        versions = {version for file in same for version in file.versions}
        if tree.version not in versions:
            reason = f"it is a file of cgroup v{min(versions)}; this machine's groups are v{tree.version}"
        elif cgroup.is_root and not any(file.on_root for file in same):
            reason = "the root has no such file"
        else:
            reason = "this kernel has no such file"
        raise BlklabError(f"no file {name!r} (ENOENT): {reason}", where)
    raise BlklabError(
        f"no file {name!r} (ENOENT); there are {', '.join(sorted(known))}{nearest(name, sorted(known))}",
        where,
    )


def read_file(cgroup: Cgroup, tree: CgroupTree, name: str, features: Features | None = None) -> str:
    """What `cat` would print, without the last newline. Raises BlklabError if there is no such file, or it cannot be
    read."""
    where = f"{cgroup.name}/{name}".replace("//", "/")
    file = _find(cgroup, tree, name, features, where)
    if file.get is None:
        raise BlklabError("it cannot be read (EACCES)", where)
    return file.get(cgroup, tree)


def write_file(
    cgroup: Cgroup, tree: CgroupTree, name: str, text: str, features: Features | None = None
) -> None:
    """What `echo TEXT >` would do. Raises BlklabError for what the kernel would refuse."""
    where = f"{cgroup.name}/{name}".replace("//", "/")
    file = _find(cgroup, tree, name, features, where)
    if file.set is None:
        raise BlklabError("it cannot be written (EACCES)", where)
    try:
        file.set(cgroup, text.strip(), tree)
    except BlklabError as error:
        if error.where is not None:
            raise
        raise BlklabError(error.message, where) from None
