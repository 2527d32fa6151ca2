"""Control groups as the block layer sees them: the tree, a group on one queue, and what policies keep for it.

What: `Cgroup` is one control group of the machine (struct blkcg), `Blkg` the same group on one queue (struct
blkcg_gq), made when its first bio comes. A policy (a scheduler with groups, blk-throttle, iocost) keeps data of its
own in both.

Why here and not with the policies: a bio is charged to its group when it enters a queue, whatever the policies are, and
several policies share one tree.

Theory of operation
-------------------
A task belongs to a group (`Submitter.cgroup`). A bio that enters a queue takes the `Blkg` of its task there; a bio that
comes from another device, or a part or clone of one, stays with the group it carries. `lookup_create` makes the missing
ones from the root down, so that a group always finds its parent's data. A policy is activated on a queue (`activate`):
then each group that is there, and each that comes, gets its `pd_alloc` data in the policy's slot.

A machine without control groups has none of this: `queue.blkcg`, `Submitter.cgroup` and `bio.blkg` are None, and
nothing is paid for. One that has any has the root too.

What a user reads and writes are files: cgroup_files.py.

Deliberate differences: groups are not removed while the machine runs; no statistics per CPU; no limits of open
references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from blklab.core.errors import BlklabError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.block.bio import Bio
    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import F_CGROUP_ACCT, OP_DISCARD, OP_READ

# Devices have the major number of block-ext, and the number of their place in the machine
MAJOR = 259

# Slots of the policies: where each keeps its data in `Cgroup.cpd` and `Blkg.pd`
POLICY_THROTL = 0
POLICY_BFQ = 1
POLICY_CFQ = 2
POLICY_IOCOST = 3
POLICY_IOLATENCY = 4
POLICY_IOPRIO = 5
NR_POLICIES = 6


def device_number(queue: RequestQueue) -> str:
    """MAJ:MIN of a device, as control files show it."""
    return f"{MAJOR}:{queue.number}"


class BlkgStat:
    """What a group has done on a queue, its children not counted (blkg_iostat): bytes and I/Os."""

    def __init__(self) -> None:
        self.rbytes = 0
        self.wbytes = 0
        self.dbytes = 0
        self.rios = 0
        self.wios = 0
        self.dios = 0

    def account(self, bio: Bio) -> None:
        """blk_cgroup_bio_start: a bio is submitted. The rest of a cut one counts as an I/O, its bytes have been
        counted."""
        nr_bytes = 0
        if not bio.flags & F_CGROUP_ACCT:
            bio.flags |= F_CGROUP_ACCT
            nr_bytes = bio.nr_sectors << 9
        if bio.op == OP_DISCARD:
            self.dbytes += nr_bytes
            self.dios += 1
        elif bio.op == OP_READ:
            self.rbytes += nr_bytes
            self.rios += 1
        else:
            self.wbytes += nr_bytes
            self.wios += 1


class Cgroup:
    """One control group. `name` is its path ("/" for the root), `cpd` what each policy keeps for it on all queues (by
    slot), `blkgs` its `Blkg` by number of the queue."""

    def __init__(self, name: str, parent: Cgroup | None, ident: int) -> None:
        self.name = name
        self.parent = parent
        self.ident = ident
        self.level: int = 0 if parent is None else parent.level + 1
        self.children: list[Cgroup] = []
        self.cpd: list[object] = [None] * NR_POLICIES
        self.blkgs: dict[int, Blkg] = {}
        if parent is not None:
            parent.children.append(self)

    @property
    def is_root(self) -> bool:
        """Whether it is the root of the tree."""
        return self.parent is None

    def newest_first(self) -> Iterator[Blkg]:
        """The group on each of its queues, as control files list them."""
        return reversed(list(self.blkgs.values()))

    def walk(self) -> Iterator[Cgroup]:
        """Itself and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


class Blkg:
    """A control group on one queue. `pd`: what each policy keeps for it here (by slot); `stat`: what it did here."""

    def __init__(self, cgroup: Cgroup, queue: RequestQueue, parent: Blkg | None) -> None:
        self.cgroup = cgroup
        self.queue = queue
        self.parent = parent
        self.level = cgroup.level
        self.is_root = parent is None
        self.children: list[Blkg] = []
        self.pd: list[object] = [None] * NR_POLICIES
        self.stat = BlkgStat()
        if parent is not None:
            parent.children.append(self)

    def walk(self) -> Iterator[Blkg]:
        """Itself and all below it, parents first (blkg_for_each_descendant_pre)."""
        yield self
        for child in self.children:
            yield from child.walk()


class BlkcgPolicy:
    """One policy on one queue. Subclasses set `slot` and define `pd_alloc`."""

    slot = -1

    def pd_alloc(self, blkg: Blkg) -> object:
        """The policy's data of a group on this queue; its parent's is there."""
        raise NotImplementedError

    def pd_online(self, blkg: Blkg) -> None:
        """`blkg.pd[slot]` is set."""

    def pd_offline(self, blkg: Blkg) -> None:
        """The policy is deactivated; children first."""


class QueueGroups:
    """The groups of one queue (`queue.blkcg`) and the policies that are active on it."""

    def __init__(self, queue: RequestQueue, tree: CgroupTree) -> None:
        self.queue = queue
        self.tree = tree
        self.policies: list[BlkcgPolicy | None] = [None] * NR_POLICIES
        self.root = Blkg(tree.root, queue, None)
        tree.root.blkgs[queue.number] = self.root

    def lookup_create(self, cgroup: Cgroup) -> Blkg:
        """The group here, which is made if it is not there, with its parents before it."""
        blkg: Blkg | None = cgroup.blkgs.get(self.queue.number)
        if blkg is not None:
            return blkg
        parent = self.lookup_create(cgroup.parent)  # type: ignore[arg-type]  # the root's is there
        blkg = Blkg(cgroup, self.queue, parent)
        cgroup.blkgs[self.queue.number] = blkg
        for policy in self.policies:
            if policy is not None:
                self._begin(policy, blkg)
        return blkg

    def _begin(self, policy: BlkcgPolicy, blkg: Blkg) -> None:
        blkg.pd[policy.slot] = policy.pd_alloc(blkg)
        policy.pd_online(blkg)

    def activate(self, policy: BlkcgPolicy) -> None:
        """blkcg_activate_policy: from now on the groups here have the policy's data."""
        assert self.policies[policy.slot] is None, f"policy slot {policy.slot} is taken"
        self.policies[policy.slot] = policy
        for blkg in self.root.walk():
            self._begin(policy, blkg)

    def deactivate(self, policy: BlkcgPolicy) -> None:
        """blkcg_deactivate_policy: its data goes, children first."""
        assert self.policies[policy.slot] is policy
        for blkg in reversed(list(self.root.walk())):
            policy.pd_offline(blkg)
            blkg.pd[policy.slot] = None
        self.policies[policy.slot] = None

    def associate(self, bio: Bio) -> int:
        """bio_associate_blkg: the group of a bio that enters this queue, and its statistics."""
        blkg = bio.blkg
        if blkg is None:
            cgroup = bio.submitter.cgroup  # type: ignore[union-attr]
            blkg = self.root if cgroup is None else self.lookup_create(cgroup)
            bio.blkg = blkg
            prio_class: Any = blkg.cgroup.cpd[POLICY_IOPRIO]
            if prio_class is not None:
                bio.ioprio = prio_class.ioprio(bio.ioprio)
        elif blkg.queue is not self.queue:
            blkg = self.lookup_create(blkg.cgroup)
            bio.blkg = blkg
        return 0


class CgroupTree:
    """All control groups of a machine; `version` 1 or 2 says which files they have. `queues`: by name, those that have
    groups. `tasks`: those that were put into a group."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.root = Cgroup("/", None, 0)
        self.queues: dict[str, RequestQueue] = {}
        self.tasks: list[Submitter] = []
        self.made = 0

    @property
    def features(self) -> Features:
        """The kernel's features, as its devices have them."""
        return next(iter(self.queues.values())).features

    def attach(self, task: Submitter, cgroup: Cgroup) -> None:
        """The task belongs to the group from now on: what it submits later is the group's."""
        task.cgroup = cgroup
        if task not in self.tasks:
            self.tasks.append(task)

    def add_queue(self, queue: RequestQueue) -> None:
        """The queue's bios belong to groups from now on."""
        queue.blkcg = QueueGroups(queue, self)
        self.queues[queue.name] = queue

    def find(self, path: str) -> Cgroup | None:
        """The group of that path ("/a/b"; a leading slash may be missing), or None."""
        group: Cgroup = self.root
        for name in path.split("/"):
            if not name:
                continue
            for child in group.children:
                if child.name.rpartition("/")[2] == name:
                    group = child
                    break
            else:
                return None
        return group

    def make(self, path: str) -> Cgroup:
        """mkdir -p: the group of that path, made with its parents if it is not there."""
        group: Cgroup = self.root
        for name in path.split("/"):
            if not name:
                continue
            child = next((c for c in group.children if c.name.rpartition("/")[2] == name), None)
            if child is None:
                self.made += 1
                child = Cgroup(f"{group.name.rstrip('/')}/{name}", group, self.made)
            group = child
        return group

    def queue(self, name: str, where: str | None = None) -> RequestQueue:
        """The queue of a device, named in a control file or given as MAJ:MIN. Raises BlklabError if there is none."""
        major, _, minor = name.partition(":")
        if major == str(MAJOR):
            for queue in self.queues.values():
                if minor == str(queue.number):
                    return queue
        if name not in self.queues:
            known = sorted(self.queues)
            raise BlklabError(
                f"no such device: {name!r} (ENODEV); there are {', '.join(known)}{nearest(name, known)}",
                where,
            )
        return self.queues[name]
