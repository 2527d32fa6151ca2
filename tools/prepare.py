"""Makes .venv and installs the locked requirements in it: `python3 tools/prepare.py build|dev`, with any
Python from 3.11 on.

First it looks for what pip cannot bring (compiler, Python headers, venv) and names the Debian packages that
are missing, in one line to copy. It does nothing when .venv already holds what the lock file asks for, so
every make target may start with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)


def has_compiler() -> bool:
    """Whether a C program that includes the C library's headers compiles and links."""
    compiler = os.environ.get("CC", "").split()[:1] or ["cc"]
    if shutil.which(compiler[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(
            "#include <stdint.h>\n#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n"
        )
        command = [compiler[0], str(source), "-o", str(Path(folder) / "probe")]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


def missing_packages() -> list[str]:
    """Debian's names of the packages that are needed and not there."""
    missing = []
    if not has_compiler():
        missing += ["gcc", "libc6-dev"]
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        missing.append("python3-dev")
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        missing.append("python3-venv")
    if shutil.which("make") is None:
        missing.append("make")
    return missing


def venv_works() -> bool:
    """Whether .venv is there and its Python starts and is the version of this one."""
    python = VENV / "bin" / "python"
    if not python.exists():
        return False
    probe = "import sys; print(sys.version_info[:2])"
    result = subprocess.run([python, "-c", probe], check=False, capture_output=True, text=True)
    return result.stdout.strip() == str(sys.version_info[:2])


def install(group: str) -> None:
    """Brings .venv to requirements/GROUP.txt, unless its stamp says that it is there."""
    lock = ROOT / "requirements" / f"{group}.txt"
    stamp = VENV / "installed"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not venv_works():
        print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    installed = stamp.read_text().split() if stamp.is_file() else []
    if digest in installed:
        return
    print(f"Installing requirements/{group}.txt", flush=True)
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    command += ["--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    subprocess.run(command, check=True)
    stamp.write_text("\n".join([*installed, digest]))


def main(argv: list[str]) -> int:
    """`build` or `dev`: which lock file. Exit status 1 with one line to copy when Debian packages are
    missing."""
    if argv not in (["build"], ["dev"]):
        print("usage: prepare.py build | dev", file=sys.stderr)
        return 2
    if sys.version_info[:2] < OLDEST_PYTHON:
        print(
            f"blklab needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}",
            file=sys.stderr,
        )
        return 1
    missing = missing_packages()
    if missing:
        print(
            f"Missing: {', '.join(missing)}. On Debian:\n\n    apt-get install {' '.join(missing)}\n",
            file=sys.stderr,
        )
        return 1
    with (ROOT / ".prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            install(argv[0])
        except subprocess.CalledProcessError as error:
            print(f"failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
