/*
 * What ranks report of their ports, as figures of the cost model: they stand in for those that are built in where
 * nothing was tuned, and decide by which transport two ranks talk (hki_cluster_link).
 */
#ifndef HKI_COST_REPORTED_H
#define HKI_COST_REPORTED_H

#include "cost/figures.h"

/* From what a transport says: ns, and ns a byte. What does not fit counts as not known. */
hki_port_cost hki_port_cost_of(double alpha_ns, double beta_ns);

/* Fills in cluster->costs, from which links follow, by the figures, which all ranks hold. by_cost false: links go by a
 * fixed order, and are left alone. */
void hki_reported_costs(hki_cluster *cluster, const hki_figures *figures, bool by_cost);

/* Puts what the ports say in place of the built-in figures of tcp and verbs. A class has one set of figures, so the
 * slowest port's count: whoever waits for all waits for that one. Latency and rate are the ports'; how protocols
 * differ, and what cores spend, stays as it is built in. */
void hki_reported_apply(const hki_cluster *cluster, hki_figures *figures);

#endif
