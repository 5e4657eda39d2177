#!/bin/bash
# The statistics of bench/compare: intervals by order statistics, and which pairs of legs count.
set -u
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$SOURCE_DIR/bench" python3 - -v <<'PYTHON'
import itertools
import unittest

import comparing


def leg(microseconds):
    return lambda: {8: {"time_us": {"p50": microseconds}}}


def machine(*handovers):
    """A probe that sees these hand-overs in turn, the last one for ever."""
    values = itertools.chain(handovers, itertools.repeat(handovers[-1]))
    return lambda: {"handover_ns": next(values), "copy_gbs": 10.0}


class Statistics(unittest.TestCase):
    def test_intervals_have_the_binomial_coverage(self):
        # Textbook table of the sign test: 15 samples, 4th to 12th; 20 samples, 6th to 15th; below 6 no interval of 95 %.
        self.assertEqual(comparing.order_interval(15), (3, 11))
        self.assertEqual(comparing.order_interval(20), (5, 14))
        self.assertEqual(comparing.order_interval(6), (0, 5))
        self.assertEqual(comparing.order_interval(3), (0, 2))

    def test_the_interval_encloses_the_median(self):
        ratios = [0.9, 0.5, 0.7, 0.8, 0.6, 0.55, 0.65, 0.75, 0.85]
        summary = comparing.summarise(ratios)
        self.assertEqual(summary["median"], 0.7)
        self.assertLessEqual(summary["low"], summary["median"])
        self.assertGreaterEqual(summary["high"], summary["median"])


class Pairing(unittest.TestCase):
    def test_steady_pairs_are_kept(self):
        pairs = comparing.Pairs(machine(100.0), leg(1.0), leg(2.0), 5).take(9)
        self.assertEqual((len(pairs.kept), pairs.dropped), (5, 0))
        self.assertEqual(pairs.times(8), [(1.0, 2.0)] * 5)

    def test_a_pair_during_which_the_machine_changed_is_dropped(self):
        pairs = comparing.Pairs(machine(100.0, 100.0, 130.0), leg(1.0), leg(2.0), 3).take(9)
        self.assertEqual((len(pairs.kept), pairs.dropped), (3, 1))

    def test_an_unsteady_machine_ends_after_the_most_pairs(self):
        values = itertools.cycle([100.0, 200.0])
        pairs = comparing.Pairs(lambda: {"handover_ns": next(values), "copy_gbs": 10.0}, leg(1.0), leg(2.0), 3).take(4)
        self.assertEqual((len(pairs.kept), pairs.dropped, pairs.sizes()), (0, 4, []))

    def test_legs_alternate(self):
        order = []

        def note(name, value):
            return lambda: (order.append(name), leg(value)())[1]

        comparing.Pairs(machine(100.0), note("a", 1.0), note("b", 2.0), 3).take(3)
        self.assertEqual("".join(order), "ababab")


class Legs(unittest.TestCase):
    def test_failures_name_the_command(self):
        with self.assertRaisesRegex(comparing.LegFailed, "exit status 3.*sh"):
            comparing.run(["sh", "-c", "exit 3"], None, 5)
        with self.assertRaisesRegex(comparing.LegFailed, "no end within"):
            comparing.run(["sleep", "5"], None, 0.2)
        with self.assertRaisesRegex(comparing.LegFailed, "no cell"):
            comparing.cells("nothing here")


unittest.main(argv=["test_compare"])
PYTHON
