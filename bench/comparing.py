"""Statistics and legs of bench/compare: what can be tested without a library to measure."""

import json
import math
import statistics
import subprocess
import time

# Two probes that differ by more than this saw different machines: the pair of legs between them says nothing.
MOVED = 0.15


def order_interval(count, confidence=0.95):
    """Ranks (from 0) of the two order statistics that enclose the median with at least the confidence, as narrowly as
    possible; (0, count - 1) when there are too few samples for it."""

    def tail(low):  # P(fewer than `low` + 1 of `count` samples lie below the median)
        return sum(math.comb(count, i) for i in range(low + 1)) / 2.0**count

    low = 0
    while low + 1 < count - 1 - (low + 1) and 1.0 - 2.0 * tail(low + 1) >= confidence:
        low += 1
    return low, count - 1 - low


def summarise(ratios):
    """Median of paired ratios with its 95 % interval by order statistics, which assumes no distribution."""
    ordered = sorted(ratios)
    low, high = order_interval(len(ordered))
    return {"median": statistics.median(ordered), "low": ordered[low], "high": ordered[high]}


def spread(values):
    """How far apart the largest and the smallest are, relative to the smallest."""
    return max(values) / min(values) - 1.0 if min(values) > 0 else math.inf


def moved(probes):
    """Has the machine changed between these probes?"""
    return any(spread([probe[name] for probe in probes]) > MOVED for name in ("handover_ns", "copy_gbs"))


class LegFailed(Exception):
    """A leg that gave no result; the text says which command and why."""


def run(command, environment, timeout):
    """Runs a command and returns its standard output. The command leads a process group, so that a leg that hangs ends
    with everything it started."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise LegFailed(f"no end within {timeout:.0f} s: {' '.join(command)}") from None
    if process.returncode != 0:
        tail = "\n".join((err or out).strip().splitlines()[-6:])
        raise LegFailed(f"exit status {process.returncode}: {' '.join(command)}\n{tail}")
    return out


def cells(output):
    """The JSON objects that a driver printed, by size: {bytes: cell}."""
    found = {}
    for line in output.splitlines():
        if line.startswith("{"):
            cell = json.loads(line)
            found[cell["bytes"]] = cell
    if not found:
        raise LegFailed("the driver printed no cell")
    return found


class Pairs:
    """Pairs of legs of two contestants, A B A B …, with a probe of the machine before, between and after."""

    def __init__(self, probe, subject, peer, wanted):
        self.probe, self.subject, self.peer, self.wanted = probe, subject, peer, wanted
        self.kept, self.dropped, self.probes = [], 0, []

    def take(self, most):
        """Runs pairs until enough are kept, or `most` have been run. Each leg is a function that returns cells."""
        before = self.probe()
        for _ in range(most):
            if len(self.kept) >= self.wanted:
                break
            ours = self.subject()
            between = self.probe()
            theirs = self.peer()
            after = self.probe()
            if moved([before, between, after]):
                self.dropped += 1
            else:
                self.kept.append((ours, theirs))
            self.probes += [between, after]
            before = after
        return self

    def sizes(self):
        common = set.intersection(*[set(ours) & set(theirs) for ours, theirs in self.kept]) if self.kept else set()
        return sorted(common)

    def times(self, size):
        """The p50 times of both, pair by pair, in µs."""
        return [(ours[size]["time_us"]["p50"], theirs[size]["time_us"]["p50"]) for ours, theirs in self.kept]


def elapsed(command, environment, timeout):
    """Seconds from start to end of a command that must succeed."""
    start = time.monotonic()
    run(command, environment, timeout)
    return time.monotonic() - start
