#!/bin/bash
# Every algorithm that is listed, forced by name in hocket bench and checked, for 2, 3, 4, 5, 7 and 8 ranks at 8 B, 1000 B,
# 64 KiB and 4 MiB. One that cannot serve says why; a name that does not exist is an error.
#
# A job serves each collective by one of its algorithms, so that there are no more jobs than the collective with the
# most algorithms has. CONFORMANCE_ALL=1 runs all of them; a normal run takes 4 MiB on 2 and 3 ranks only, 1 MiB on 8, whose
# blocks are still too large to be sent without being asked for, and 64 KiB on the others.
set -u
exec python3 -B - <<'PYTHON'
import csv, io, json, os, subprocess, sys

program = os.environ["HOCKET_PROGRAM"]
everything = os.environ.get("CONFORMANCE_ALL", "0") != "0"
failures, cells, refusals, jobs = [], 0, 0, 0


def run(*arguments, seconds=100):
    global jobs
    jobs += 1
    return subprocess.run([program, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=seconds)


listed = json.loads(run("info", "--algorithms", "--json").stdout)
algorithms = {}
for one in listed:
    algorithms.setdefault(one["collective"], []).append(one)


def refused(collective, name, ranks):
    """Runs one that has a constraint alone: true when it says that it cannot serve, and why."""
    result = run("bench", collective, "-n", str(ranks), "--algorithm", name, "--max", "8", "--iters", "1")
    if result.returncode == 0:
        return False
    if f"cannot serve this {collective} of {ranks} ranks: " not in result.stderr:
        failures.append(f"{collective}:{name}, {ranks} ranks: {result.stderr}")
    return True


def check(choice, ranks, smallest, largest, step):
    """One job in which each collective has its algorithm."""
    global cells
    forced = ",".join(f"{collective}:{name}" for collective, name in choice.items())
    result = run("bench", *choice, "-n", str(ranks), "--algorithm", forced, "--min", smallest, "--max", largest,
                 "--step", step, "--iters", "1", "--warmup", "0", "--check", "--root", str(ranks - 1), "--csv", "-")
    label = f"{forced}, {ranks} ranks, {smallest} … {largest}"
    if result.returncode != 0:
        failures.append(f"{label}: exit status {result.returncode}: {result.stderr[-500:]}")
        return
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    expected = sum(1 if collective == "barrier" else 2 for collective in choice)
    if len(rows) != expected:
        failures.append(f"{label}: {len(rows)} cells, not {expected}")
    for row in rows:
        cells += 1
        if row["correct"] != "yes" or row["algorithm"] != choice[row["collective"]]:
            failures.append(f"{label}: {row}")


for ranks in (2, 3, 4, 5, 7, 8):
    usable = {}
    for collective, names in algorithms.items():
        usable[collective] = []
        for one in names:
            if one["constraint"] and refused(collective, one["name"], ranks):
                refusals += 1
            else:
                usable[collective].append(one["name"])
    for turn in range(max(map(len, usable.values()))):
        choice = {collective: names[turn] for collective, names in usable.items() if turn < len(names)}
        check(choice, ranks, "8", "1000", "125")
        if everything or ranks in (2, 3):
            check(choice, ranks, "64K", "4M", "64")
        elif ranks == 8:
            check(choice, ranks, "64K", "1M", "16")
        else:
            check({c: n for c, n in choice.items() if c != "barrier"} or choice, ranks, "8K", "64K", "8")

for words, arguments in (
        ('allreduce has no "rings", but ring, ', ("allreduce", "--algorithm", "rings")),
        ('there is no collective "allredoce"', ("allreduce", "--algorithm", "allredoce:ring")),
        ("names both ring and flat for allreduce", ("allreduce", "--algorithm", "allreduce:ring,allreduce:flat")),
        ("forbids every algorithm that could serve this gatherv",
         ("gatherv", "--algorithm", "gatherv:^linear"))):
    result = run("bench", *arguments, "-n", "2", "--max", "8")
    if result.returncode == 0 or words not in result.stderr:
        failures.append(f"{arguments}: exit status {result.returncode}, said: {result.stderr}")

for failure in failures[:20]:
    print("FAILED:", failure)
print(f"{len(listed)} algorithms, {cells} cells checked, {refusals} refusals, {jobs} jobs, {len(failures)} failures")
sys.exit(bool(failures) or cells < 12 * len(listed) or refusals == 0)
PYTHON
