"""Each layer includes only what lies below it: schedules know no transport, transports know no schedule."""

import os
import re

import tree

# What a layer may include directly; what those include comes with them.
BELOW = {
    "base": [],
    "net": ["base"],
    "dtype": ["base"],
    "topo": ["base"],
    "sched": ["base", "dtype"],
    "algo": ["sched", "topo"],
    "cost": ["algo", "sched", "topo", "dtype"],
    "sim": ["cost", "sched"],
    "msg": ["dtype", "net"],
    "exec": ["sched", "msg", "topo"],
    "boot": ["net"],
    "comm": ["base", "net", "dtype", "topo", "sched", "algo", "cost", "sim", "msg", "exec", "boot"],
    "transports": ["net", "base"],
    "template": [],  # stands for transports outside this tree
    "train": [],
    "examples": [],
}
UNLIMITED = {"tools", "bench", "tests"}
# Who sees which public headers besides hocket.h.
PUBLIC = {
    "include": {"store.h", "transport.h", "train.h"},
    "net": {"transport.h"},
    "msg": {"transport.h"},
    "exec": {"transport.h"},
    "boot": {"store.h"},
    "comm": {"store.h", "transport.h"},
    "transports": {"transport.h"},
    "template": {"transport.h"},
    "train": {"train.h"},
    "examples": {"store.h", "train.h"},
}


def closure(layer):
    reached = {layer}
    for lower in BELOW[layer]:
        reached |= closure(lower)
    return reached


def layer_of(path):
    """The layer of a path relative to the root; transports are one each ("transports/shm")."""
    parts = path.split("/")
    if parts[:2] == ["transports", "template"]:
        return "template"
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "transports":
        return "/".join(parts[:2])
    return parts[0]


def resolve(includer, name):
    """Where `#include "name"` leads, relative to the root; None when it is nowhere."""
    for folder in (os.path.dirname(includer), "src", "include", "."):
        candidate = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(tree.ROOT, candidate)):
            return candidate
    return None


def complaint(path, delimiter, name):
    """Why this include breaks the order, or None."""
    layer = layer_of(path)
    kind = layer.split("/")[0]
    if kind in UNLIMITED:
        return None
    public = re.fullmatch(r"hocket/(.*)", name)
    if public:
        if public.group(1) == "hocket.h" or public.group(1) in PUBLIC.get(kind, ()):
            return None
        return f"{layer} may not see the public header {name}"
    if delimiter == "<":
        return None
    target = resolve(path, name)
    if target is None:
        return f'"{name}" is not found'
    lower = layer_of(target)
    allowed = closure(kind) - {"transports"} | {layer}
    return None if lower in allowed else f"{layer} may not include {lower} ({name})"


problems, checked = [], 0
for path in tree.files(".c", ".h", ".def"):
    for number, line in enumerate(tree.read(path).split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if match:
            checked += 1
            reason = complaint(path, match.group(1), match.group(2))
            if reason:
                problems.append(f"{path}:{number}: {reason}")
tree.finish(problems, checked)
