"""Habits that a compiler does not check: who reads the environment, ends the process, prints; how long a file is."""

import re

import tree

LONGEST = 700
LIBRARY = ("src/", "transports/")
PROGRAM = ("src/tools/",)
APART = ("src/topo/outside.c",)  # a child process that reads files for programs

# (pattern, where it is forbidden, where it is allowed all the same, why)
RULES = [
    (r"\b(?:secure_)?getenv\s*\(", LIBRARY + ("bench/",), ("src/base/settings.c", "bench/peers/"),
     "the environment is read by src/base/settings.c alone"),
    (r"\benviron\b", LIBRARY, ("src/base/settings.c",) + PROGRAM, "the environment is read by src/base/settings.c alone"),
    (r"\b(?:exit|_exit|_Exit|quick_exit|abort)\s*\(", LIBRARY, PROGRAM + APART, "a library does not end its caller"),
    (r"\b(?:atexit|on_exit)\s*\(", LIBRARY, ("src/comm/context.c",) + PROGRAM, "contexts alone leave at exit"),
    (r"\b(?:printf|vprintf|puts|putchar|perror|psignal|warnx?|errx?)\s*\(", LIBRARY, PROGRAM,
     "a library prints nothing unless asked"),
    (r"\b(?:stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b", LIBRARY, ("src/base/log.c",) + PROGRAM,
     "a library prints nothing unless asked"),
    (r"\b(?:signal|sigaction|sigset)\s*\(", LIBRARY, PROGRAM + APART, "a library installs no signal handler"),
    (r"\b(?:strtok|strcpy|strcat|sprintf|vsprintf|gets|asctime|ctime|gmtime|localtime|rand)\s*\(", LIBRARY + ("bench/",), (),
     "not bounded or not thread-safe"),
    (r"\bstr(?:tod|tof|told)\s*\(", LIBRARY, PROGRAM, "its decimal point depends on the caller's locale"),
]


def broken(path):
    code = tree.code_only(tree.read(path)).split("\n")
    for pattern, forbidden, allowed, reason in RULES:
        if not path.startswith(forbidden) or path.startswith(allowed):
            continue
        for number, line in enumerate(code, 1):
            match = re.search(pattern, line)
            # The name of an operations pointer that happens to be one of these is no call.
            if match and not re.search(r"(?:->|\.)\s*$", line[:match.start()]):
                yield f"{path}:{number}: {match.group(0).strip()}: {reason}"


problems, checked = [], 0
for path in tree.files(".c", ".h", ".def", ".py", ".sh", ".cmake", "/run", "/quickstart", "/compare"):
    checked += 1
    lines = tree.read(path).count("\n")
    if lines > LONGEST:
        problems.append(f"{path}: {lines} lines, more than {LONGEST}")
    if path.endswith((".c", ".h")):
        problems += broken(path)
tree.finish(problems, checked)
