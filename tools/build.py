"""The development build: compiles what changed into build/dev/src, a mirror of src/ (`make build`).

    build.py                        everything
    build.py block metrics/stats    only the modules of these folders or files, and what they cimport
    build.py --into NAME ...        into build/NAME instead of build/dev (then set PYTHONPATH=build/NAME/src)

Theory of operation
    meson and ninja do the work, from the same meson.build as the wheel, so ninja knows every dependency (a
    changed .pxd rebuilds the modules that cimport it) and uses all cores. Beside each compiled module this
    puts links to the sources, so build/dev/src is a complete importable package: Python prefers
    `tags.cpython-311-….so` to `tags.py` beside it. .venv gets a .pth file naming it and a `blklab` command.
    So `.venv/bin/python` runs compiled, and with PYTHONPATH=src it runs the very same sources uncompiled.

    A module that does not compile does not stop the others: its stale library is removed, with those that
    depend on it, so that what remains fits together; the exit status is 1.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import sources

ROOT = sources.ROOT
MANY_MODULES = 8  # from here on it takes long enough to say so


def _tool(name: str) -> str:
    """The command beside this Python, which need not be on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def configure(build: Path) -> None:
    """Runs meson when there is no build yet, or when modules, files, Python or the build's description
    changed."""
    sources.write_meson_builds()
    python = [sys.executable, sys.version, sysconfig.get_config_var("EXT_SUFFIX")]
    inputs = [*python, *sources.hot_modules(), *sources.installed_files()]
    stamp, wanted = build / "configured-for", "\n".join(map(str, inputs))
    present = stamp.read_text() if stamp.is_file() else ""
    if present == wanted and (build / "build.ninja").is_file():
        return
    if present.split("\n")[:3] != wanted.split("\n")[:3]:
        shutil.rmtree(build, ignore_errors=True)
    command = [_tool("meson"), "setup", str(build), str(ROOT)]
    if (build / "build.ninja").is_file():
        command.append("--reconfigure")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"{result.stdout}{result.stderr}\nmeson setup failed")
    stamp.write_text(wanted)


def _ninja(build: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [_tool("ninja"), "-C", str(build), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def compile_modules(build: Path, modules: set[str]) -> list[str]:
    """Compiles what changed; returns the modules that could not be built.

    Libraries that are older than their sources afterwards are removed, asked for or not: one compiled against
    another layout of a class than the rest would read the wrong memory.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    targets = [f"src/blklab/{module}{suffix}" for module in sorted({"_cyutility", *modules})]
    waiting = _ninja(build, "-n", *targets).stdout.count("Linking target")
    if waiting > MANY_MODULES:
        print(f"Compiling {waiting} modules on {os.cpu_count()} cores: a minute or two", flush=True)
    result = _ninja(build, "-k", "0", *targets)
    interesting = [line for line in result.stdout.splitlines() if not re.match(r"\[\d+/\d+\] |ninja: ", line)]
    if result.returncode:
        print("\n".join(interesting), file=sys.stderr)
    undone = set(re.findall(r"Linking target (\S+)", _ninja(build, "-n").stdout))
    for library in undone:
        (build / library).unlink(missing_ok=True)
    return [target.removesuffix(suffix).removeprefix("src/") for target in targets if target in undone]


def mirror_sources(build: Path) -> None:
    """Links every installed file into the mirror and removes links and libraries whose source is gone."""
    wanted = set(sources.installed_files())
    package = build / "src" / "blklab"
    for name in wanted:
        link = package / name
        target = os.path.relpath(sources.PACKAGE_FOLDER / name, link.parent)
        if link.is_symlink() and str(link.readlink()) == target:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    hot = {f"{module}{sysconfig.get_config_var('EXT_SUFFIX')}" for module in sources.hot_modules()}
    for path in package.rglob("*"):
        name = path.relative_to(package).as_posix()
        stale_link = path.is_symlink() and name not in wanted
        stale_library = path.suffix == ".so" and name not in hot and path.stem.split(".")[0] != "_cyutility"
        if stale_link or stale_library:
            path.unlink()


def write_metadata(build: Path) -> None:
    """A dist-info beside the mirror's package, so that the version and the entry points are found as when
    installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = build / "src" / f"blklab-{project['version']}.dist-info"
    for old in (build / "src").glob("blklab-*.dist-info"):
        if old != folder:
            shutil.rmtree(old)
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: blklab\nVersion: {project['version']}\n")
    scripts = "\n".join(f"{name} = {target}" for name, target in project["scripts"].items())
    (folder / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


def connect_venv(build: Path) -> None:
    """Makes the Python that runs this find the mirror, and gives it the commands. Only in a virtual
    environment."""
    if sys.prefix == sys.base_prefix or Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        return
    (Path(sysconfig.get_paths()["purelib"]) / "blklab-dev.pth").write_text(f"{build / 'src'}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        script = Path(sys.executable).with_name(name)
        # As pip does it: a #! line cannot hold a path with a space, so the shell starts Python, to which the
        # first lines are a string.
        shell = f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n"
        script.write_text(f"{shell}import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        script.chmod(0o755)


def selected(names: list[str]) -> set[str]:
    """The hot modules that `names` (folders or modules below src/blklab, with or without suffix) mean, and
    what they cimport.

    Raises SystemExit for a name that means none.
    """
    hot = set(sources.hot_modules())
    if not names:
        return hot
    chosen: set[str] = set()
    for name in names:
        word = (
            name.removeprefix("src/")
            .removeprefix("blklab/")
            .rstrip("/")
            .removesuffix(".py")
            .removesuffix(".pxd")
        )
        matching = {module for module in hot if module == word or module.startswith(word + "/")}
        if not matching:
            sys.exit(f"no hot module is or lies in {name!r}; there are: {' '.join(sorted(hot))}")
        chosen |= matching
    waiting = list(chosen)
    while waiting:
        for module in sources.cimports(waiting.pop()) & hot - chosen:
            chosen.add(module)
            waiting.append(module)
    return chosen


def main(argv: list[str]) -> int:
    """Builds; prints what was not compiled and returns 1 if there is any."""
    into = "dev"
    if argv[:1] == ["--into"]:
        into, argv = argv[1], argv[2:]
    build = ROOT / "build" / into
    modules = selected(argv)
    build.parent.mkdir(exist_ok=True)
    with (build.parent / f"lock-{into}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure(build)
        failed = compile_modules(build, modules)
        mirror_sources(build)
        write_metadata(build)
        if into == "dev":
            connect_venv(build)
    if failed:
        print(f"{len(failed)} of {len(modules)} modules not compiled: {' '.join(failed)}", file=sys.stderr)
        return 1
    print(f"{len(modules)} modules compiled in build/{into}/src")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
