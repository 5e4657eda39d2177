"""The version is the same in the header, in CMake and at the head of the change log."""

import re

import tree

header = tree.read("include/hocket/hocket.h")
numbers = [re.search(rf"#define HK_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
found = {
    "include/hocket/hocket.h": ".".join(numbers),
    "CMakeLists.txt": re.search(r"project\(hocket VERSION ([\d.]+)", tree.read("CMakeLists.txt")).group(1),
    "CHANGELOG.md": re.search(r"^## ([\d.]+)", tree.read("CHANGELOG.md"), re.M).group(1),
}
problems = [f"{place} says {version}" for place, version in found.items()] if len(set(found.values())) > 1 else []
tree.finish(problems, len(found))
