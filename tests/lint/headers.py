"""Every header compiles alone; the public ones as strict C17 and as C++ too, their initialisers included."""

import os
import shutil
import subprocess

import tree

INCLUDES = [f"-I{tree.ROOT}/include", f"-I{tree.ROOT}/src", f"-I{tree.ROOT}"]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
# Written once for several instruction sets: included after the including file has defined what differs.
TEMPLATES = {"src/dtype/vector.h", "src/dtype/vector_kernels.h"}
USES = "hk_options options = HK_OPTIONS_INIT;\n"

problems, checked = [], 0


def compile_alone(header, compiler, language, flags, tail=""):
    global checked
    checked += 1
    text = f'#include "{os.path.join(tree.ROOT, header)}"\n{tail}\n'
    result = subprocess.run([compiler, "-x", language, *flags, *WARNINGS, *INCLUDES, "-"], input=text, text=True,
                            capture_output=True)
    if result.returncode != 0:
        problems.append(f"{header} as {' '.join([compiler, *flags])}:\n{result.stderr}")


compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
plus = [name for name in ("g++", "clang++") if shutil.which(name)]
if not plus:
    print("NOTE: no C++ compiler is installed, so the public headers were not tried as C++")
for header in tree.files(".h"):
    if header.startswith("include/"):
        tail = USES if header.endswith("/hocket.h") else ""
        for compiler in compilers:
            compile_alone(header, compiler, "c", ["-std=c17", "-pedantic"], tail)
        for compiler in plus:
            compile_alone(header, compiler, "c++", ["-std=c++11", "-pedantic"])
            compile_alone(header, compiler, "c++", ["-std=c++20", "-pedantic"], tail)
    elif header.startswith(("src/", "transports/")) and header not in TEMPLATES:
        compile_alone(header, compilers[0], "c", ["-std=gnu17", "-D_GNU_SOURCE"])
tree.finish(problems, checked)
