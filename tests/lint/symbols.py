"""The shared library shows what the public headers declare: nothing else, nothing less, under its symbol version."""

import re
import subprocess
import sys

import tree

library = sys.argv[1]
declared = set()
for header in tree.files(".h"):
    if header.startswith("include/"):
        text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", tree.code_only(tree.read(header)), flags=re.M)
        declared |= set(re.findall(r"\bHK_API\b[^;{]*?\b(hk_\w+)\s*\(", text))

problems = []
exported = set()
for line in subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                           text=True).stdout.splitlines():
    kind, symbol = line.split()[-2:]
    if kind == "A":  # the version itself
        continue
    name, _, version = symbol.partition("@@")
    exported.add(name)
    if version != "HOCKET_0":
        problems.append(f"{symbol} is exported without the version HOCKET_0")
for name in sorted(exported - declared):
    problems.append(f"{name} is exported, but no public header declares it")
for name in sorted(declared - exported):
    problems.append(f"{name} is declared, but the library does not define it")
tree.finish(problems, len(exported))
