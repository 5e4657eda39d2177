#include "topo/boxes.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Measures in pixels. A letter's width is that of DejaVu Sans, on the safe side for narrower fonts. */
enum { GAP = 8, LINE = 18, LETTER = 7, LABEL = 20, STACK = 4, MARGIN = 16, LABEL_BYTES = 120 };

struct hki_box {
    hki_box_kind kind;
    char label[LABEL_BYTES];
    bool stack;
    hki_box *first, *last, *next; /* what it holds; its neighbour */
    uint32_t count;
    int x, y, width, height; /* x and y: within what holds it */
};

struct hki_boxes {
    hki_box top;
    bool failed;
};

static const struct {
    const char *fill, *stroke;
} looks[HKI_BOX_KINDS] = {
    [HKI_BOX_SWITCH] = {"#eef2f7", "#8da2bb"}, [HKI_BOX_HOST] = {"#ffffff", "#5b6b7f"},
    [HKI_BOX_NIC] = {"#fde7c7", "#c98a2b"},    [HKI_BOX_PACKAGE] = {"#f6f6f4", "#a8a8a0"},
    [HKI_BOX_NUMA] = {"#e8f3ea", "#7fae88"},   [HKI_BOX_CACHE] = {"#e3edf9", "#7c9cc4"},
    [HKI_BOX_CORE] = {"#ffffff", "#7c9cc4"},   [HKI_BOX_UNUSABLE] = {"#dddddd", "#aaaaaa"},
    [HKI_BOX_RANK] = {"#2f6db3", "#2f6db3"},
};

hki_boxes *hki_boxes_new(const char *title)
{
    hki_boxes *made = calloc(1, sizeof *made);
    if (made)
        snprintf(made->top.label, sizeof made->top.label, "%s", title);
    return made;
}

static void free_held(hki_box *box)
{
    for (hki_box *held = box->first, *next; held; held = next) {
        next = held->next;
        free_held(held);
        free(held);
    }
}

void hki_boxes_free(hki_boxes *boxes)
{
    if (boxes)
        free_held(&boxes->top);
    free(boxes);
}

hki_box *hki_box_add(hki_boxes *boxes, hki_box *within, hki_box_kind kind, const char *format, ...)
{
    hki_box *made = boxes && !boxes->failed ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        if (boxes)
            boxes->failed = true;
        return NULL;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made->label, sizeof made->label, format, arguments);
    va_end(arguments);
    made->kind = kind;
    within = within ? within : &boxes->top;
    if (within->last)
        within->last->next = made;
    else
        within->first = made;
    within->last = made;
    within->count++;
    return made;
}

void hki_box_stack(hki_box *box)
{
    if (box)
        box->stack = true;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Layout
 * ------------------------------------------------------------------------------------------------------------- */

/* Letters, not bytes, of UTF-8. */
static int text_width(const char *text)
{
    int letters = 0;
    for (; *text; text++)
        letters += (*text & 0xc0) != 0x80;
    return letters * LETTER;
}

/* How many boxes stand in a row: all of a few, else about as many as make the whole half as high as wide. */
static uint32_t row_length(uint32_t count)
{
    uint32_t row = 1;
    while (row * row < 2 * count)
        row++;
    return count <= 4 ? count : row;
}

static void lay_out(hki_box *box)
{
    int width = 0, x = GAP, y = *box->label ? LABEL + GAP : GAP, high = 0;
    uint32_t row = row_length(box->count), placed = 0;
    for (hki_box *held = box->first; held; held = held->next) {
        lay_out(held);
        if (placed > 0 && placed % row == 0) {
            x = GAP;
            y += high + GAP;
            high = 0;
        }
        held->x = x;
        held->y = y;
        x += held->width + GAP;
        width = x > width ? x : width;
        high = held->height > high ? held->height : high;
        placed++;
    }
    int label = text_width(box->label) + 2 * GAP;
    box->width = label > width ? label : width;
    box->height = box->count > 0 ? y + high + GAP : LABEL + 4;
    if (box->stack) {
        box->width += 2 * STACK;
        box->height += 2 * STACK;
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * SVG
 * ------------------------------------------------------------------------------------------------------------- */

static void put_text(const char *text, FILE *file)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, file);
}

static void put_frame(const hki_box *box, int x, int y, FILE *file)
{
    int width = box->width - (box->stack ? 2 * STACK : 0), height = box->height - (box->stack ? 2 * STACK : 0);
    for (int behind = box->stack ? 2 : 0; behind >= 0; behind--)
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"%s\"/>\n",
                x + behind * STACK, y + behind * STACK, width, height, looks[box->kind].fill, looks[box->kind].stroke);
}

static void put_box(const hki_box *box, int x, int y, FILE *file)
{
    put_frame(box, x, y, file);
    if (*box->label) {
        fprintf(file, "<text x=\"%d\" y=\"%d\"%s>", x + GAP, y + 16, box->kind == HKI_BOX_RANK ? " fill=\"#fff\"" : "");
        put_text(box->label, file);
        fputs("</text>\n", file);
    }
    for (const hki_box *held = box->first; held; held = held->next)
        put_box(held, x + held->x, y + held->y, file);
}

hk_status hki_boxes_write(hki_boxes *boxes, FILE *file)
{
    if (!boxes || boxes->failed)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a picture");
    hki_box *top = &boxes->top;
    lay_out(top);
    int width = top->width + 2 * MARGIN, height = top->height + 2 * MARGIN;
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\""
            " font-family=\"DejaVu Sans, sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"%d\" font-weight=\"bold\">",
            width, height, width, height, MARGIN + GAP, MARGIN + 12);
    put_text(top->label, file);
    fputs("</text>\n", file);
    for (const hki_box *held = top->first; held; held = held->next)
        put_box(held, MARGIN + held->x, MARGIN + held->y, file);
    fputs("</svg>\n", file);
    return HK_OK;
}
