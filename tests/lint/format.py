"""clang-format leaves every C file as it is."""

import re
import shutil
import subprocess

import tree

MAJOR = "14"  # others lay out some constructs differently

program = shutil.which(f"clang-format-{MAJOR}") or shutil.which("clang-format")
if not program:
    tree.skip("clang-format is not installed, so the layout of the sources was NOT checked")
version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
if not re.search(rf"version {MAJOR}\.", version):
    tree.skip(f"clang-format {MAJOR} is not installed, so the layout was NOT checked ({version.strip()})")
sources = tree.files(".c", ".h")
result = subprocess.run([program, "--dry-run", "-Werror", *sources], cwd=tree.ROOT, capture_output=True, text=True)
wrong = sorted({line.split(":")[0] for line in result.stderr.split("\n") if "[-Wclang-format-violations]" in line})
problems = [f"{path}: clang-format would change it" for path in wrong]
if result.returncode != 0 and not wrong:
    problems.append(result.stderr)
tree.finish(problems, len(sources))
