/*
 * Pictures of boxes within boxes, as SVG. A box is as large as what it holds; what it holds is laid out in rows. All
 * texts are copied. Where memory is out, boxes are NULL, may be passed on as such, and hki_boxes_write says so.
 */
#ifndef HKI_TOPO_BOXES_H
#define HKI_TOPO_BOXES_H

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What a box stands for decides how it looks. */
typedef enum hki_box_kind {
    HKI_BOX_SWITCH,
    HKI_BOX_HOST,
    HKI_BOX_NIC,
    HKI_BOX_PACKAGE,
    HKI_BOX_NUMA,
    HKI_BOX_CACHE,
    HKI_BOX_CORE,
    HKI_BOX_UNUSABLE, /* a core that may not be used */
    HKI_BOX_RANK,
    HKI_BOX_KINDS
} hki_box_kind;

typedef struct hki_boxes hki_boxes;
typedef struct hki_box hki_box;

/* NULL: no memory. The title stands above everything. */
hki_boxes *hki_boxes_new(const char *title);
void hki_boxes_free(hki_boxes *boxes);
/* A new box in another, or at the top (within NULL, as long as hki_boxes is given). */
hki_box *hki_box_add(hki_boxes *boxes, hki_box *within, hki_box_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The box stands for several that are alike: it is drawn as a stack. */
void hki_box_stack(hki_box *box);
/* Lays out and writes. HK_ERR_NO_MEMORY; errors of the file are the caller's to find. */
hk_status hki_boxes_write(hki_boxes *boxes, FILE *file);

#endif
