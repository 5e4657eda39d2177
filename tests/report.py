"""Reads what ctest wrote as JUnit XML and adds it up.

Prints, for people, the cmocka cases behind the tests, what was skipped and why; and in its last line, for tests/run,
"passed failed skipped" and the failed tests' names.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

path, preset = sys.argv[1:]
try:
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
except (OSError, ElementTree.ParseError) as problem:
    print(f"{path}: {problem}")
    print(f"0 1 0 {preset}: no test results")
    sys.exit(0)

passed, failed, skipped = [], [], []
cmocka = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
programs = 0
for case in cases:
    name, output = case.get("name"), case.findtext("system-out") or ""
    if case.get("status") == "disabled":
        continue
    if case.get("status") == "notrun" or case.find("skipped") is not None:
        skipped.append(name)
        reasons = [line for line in output.split("\n") if line.strip()]
        print(f"skipped {name}: {reasons[0] if reasons else 'it does not say why'}")
    elif case.get("status") == "run":
        passed.append(name)
    else:
        failed.append(name)
    counts = re.findall(r"\[  (PASSED|FAILED|SKIPPED) +\] .*?(\d+) test\(s\)", output)
    programs += bool(counts)
    for outcome, number in counts:
        cmocka[outcome] += int(number)
if not cases:
    failed.append("no tests found")
print(f"{preset}: {len(passed)} tests passed, {len(failed)} failed, {len(skipped)} skipped; cmocka: {cmocka['PASSED']} "
      f"cases passed, {cmocka['FAILED']} failed, {cmocka['SKIPPED']} skipped in {programs} programs")
names = ", ".join(f"{preset}: {name}" for name in failed)
print(f"{len(passed)} {len(failed)} {len(skipped)} {names}")
