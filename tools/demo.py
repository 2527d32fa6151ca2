"""`make demo`: runs a job file with the package just built, then prints what its result shows.

The paragraph stands beside the job file, in a Markdown file of the same name: the text after its title.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def main(argv: list[str]) -> int:
    """`demo.py JOB.fio`; the exit status is that of the run."""
    job = Path(argv[0])
    command = [str(Path(sys.executable).with_name("blklab")), "run", str(job)]
    print(f"$ blklab run {job}", flush=True)
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        title, _, text = job.with_suffix(".md").read_text().partition("\n")
        print(f"\n{title.lstrip('# ')}\n")
        for paragraph in text.strip().split("\n\n"):
            print(textwrap.fill(" ".join(paragraph.split()), width=100, break_on_hyphens=False))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
