"""The lint tests can fail: each rule is broken in a copy of the tree, and must then complain about just that."""

import os
import shutil
import subprocess
import sys
import tempfile

import tree

# (test, file to append to or make, text, what the complaint must contain)
BREACHES = [
    ("layers", "src/base/error.c", '#include "sched/ir.h"\n', "base may not include sched"),
    ("layers", "src/sched/ir.h", "#include <hocket/transport.h>\n", "may not see the public header"),
    ("layers", "transports/shm/a.c", '#include "transports/tcp/b.h"\n', "transports/shm may not include transports/tcp"),
    ("layers", "transports/template/a.c", '#include "net/n.h"\n', "template may not include net"),
    ("layers", "examples/a.c", '#include "base/log.h"\n', "examples may not include base"),
    ("headers", "include/hocket/a.h", "size_t broken(void);\n", "include/hocket/a.h as"),
    ("headers", "include/hocket/b.h", "int *a(int class);\n", "include/hocket/b.h as g++"),
    ("sources", "src/net/a.c", "int a(void) { return getenv(0) != 0; }\n", "environment"),
    ("sources", "src/net/a.c", "void a(void) { abort(); }\n", "does not end its caller"),
    ("sources", "transports/shm/a.c", "void a(void) { fputs(0, stderr); }\n", "prints nothing"),
    ("sources", "src/net/a.c", "\n" * 701, "more than 700"),
    ("format", "src/net/a.c", "int   a;\n", "src/net/a.c"),
    ("version", "CMakeLists.txt", None, "CMakeLists.txt says 9.9.9"),
]


def prepare(copy):
    """A small clean tree: the public headers, the base, the lint tests themselves."""
    for part in ("include", "src/base", "tests/lint"):
        shutil.copytree(os.path.join(tree.ROOT, part), os.path.join(copy, part))
    for part in ("CMakeLists.txt", "CHANGELOG.md", ".clang-format"):
        shutil.copy(os.path.join(tree.ROOT, part), copy)
    for path, text in (("src/sched/ir.h", "int a;\n"), ("transports/tcp/b.h", "int b;\n"), ("src/net/n.h", "int n;\n")):
        os.makedirs(os.path.dirname(os.path.join(copy, path)), exist_ok=True)
        with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
            file.write(text)


def run(copy, test):
    return subprocess.run([sys.executable, f"{copy}/tests/lint/{test}.py"], capture_output=True, text=True)


def breach(copy, path, text):
    full = os.path.join(copy, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if text is None:
        with open(full, encoding="utf-8") as file:
            changed = file.read().replace("project(hocket VERSION ", "project(hocket VERSION 9.9.9 #")
        with open(full, "w", encoding="utf-8") as file:
            file.write(changed)
    else:
        with open(full, "a", encoding="utf-8") as file:
            file.write(text)


problems, checked = [], 0
for test, path, text, expected in [(test, None, None, None) for test in sorted({b[0] for b in BREACHES})] + BREACHES:
    with tempfile.TemporaryDirectory() as copy:
        prepare(copy)
        if path:
            breach(copy, path, text)
        result = run(copy, test)
        if result.returncode == tree.SKIPPED or (expected and "g++" in expected and not shutil.which("g++")):
            print(f"NOTE: {test} cannot run here: {result.stdout}")
            continue
        checked += 1
        if path is None and result.returncode != 0:
            problems.append(f"{test} complains about a clean tree:\n{result.stdout}{result.stderr}")
        elif path and (result.returncode != 1 or expected not in result.stdout):
            problems.append(f"{test} did not say '{expected}' about {path}:\n{result.stdout}{result.stderr}")
tree.finish(problems, checked)
