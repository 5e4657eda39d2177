"""What the lint tests share: the source tree's files, C text without comments and strings, and how to end."""

import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SKIPPED = 77  # what ctest takes for "skipped"


def files(*endings):
    """Paths relative to ROOT of the project's own files: git's view, or everything outside build/ in an archive."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files"], check=True,
                                capture_output=True, text=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        listed = [os.path.relpath(os.path.join(folder, name), ROOT)
                  for folder, _, names in os.walk(ROOT) for name in names]
        listed = [path for path in listed if not path.startswith("build/")]
    return sorted(path for path in listed
                  if path.endswith(endings) and os.path.isfile(os.path.join(ROOT, path)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def code_only(text):
    """The text with comments and the insides of strings blanked, its lines kept."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + " " * (len(found) - 2) + found[0]

    return token.sub(blank, text)


def finish(problems, checked):
    """Prints what is wrong and ends the process with the test's status; checking nothing is a failure too."""
    for problem in problems:
        print(problem)
    if not checked:
        print("nothing was checked: the files are not where this test looks for them")
    print(f"{checked} checked, {len(problems)} wrong")
    sys.exit(1 if problems or not checked else 0)


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)
