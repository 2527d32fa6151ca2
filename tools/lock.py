"""Writes requirements/build.txt and requirements/dev.txt from pyproject.toml: exact versions, with hashes
(`make lock`).

Uses pip-tools from a virtual environment of its own, made in build/lock and removed by `make clean`: nothing
else needs it. `--upgrade` takes the newest versions; without it a version stays where pyproject.toml still
allows it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK_FOLDER = ROOT / "build" / "lock"


def group(pyproject: dict[str, Any], name: str) -> list[str]:
    """The requirements of a dependency group, with what it includes."""
    found: list[str] = []
    for item in pyproject["dependency-groups"][name]:
        found += group(pyproject, item["include-group"]) if isinstance(item, dict) else [item]
    return found


def requirements() -> dict[str, list[str]]:
    """Lock file name -> the requirements it locks."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = pyproject["build-system"]["requires"] + pyproject["project"]["dependencies"]
    return {"build.txt": build, "dev.txt": build + group(pyproject, "dev")}


def main(argv: list[str]) -> int:
    """Writes both files; the second is constrained by the first, so that they agree."""
    python = LOCK_FOLDER / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(LOCK_FOLDER / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pip-tools"], check=True)
    for name, wanted in requirements().items():
        source = LOCK_FOLDER / name.replace(".txt", ".in")
        constraint = [f"-c {ROOT / 'requirements' / 'build.txt'}"] if name != "build.txt" else []
        source.write_text("\n".join([*wanted, *constraint]) + "\n")
        output = ROOT / "requirements" / name
        command = [
            python,
            "-m",
            "piptools",
            "compile",
            "--generate-hashes",
            "--strip-extras",
            "--allow-unsafe",
        ]
        command += ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command += ["--no-emit-trusted-host", "--output-file", output, source, *argv]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        print(f"{output.relative_to(ROOT)}: {output.read_text().count('==')} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
