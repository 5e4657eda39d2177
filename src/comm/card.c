#include "comm/card.h"

#include <string.h>

/* The section at *at, which moves behind it; NULL at the end. */
static const unsigned char *next_section(const hki_card *card, size_t *at, size_t *bytes)
{
    if (*at + HKI_CARD_HEAD > HKI_CARD_BYTES || card->bytes[*at] == HKI_CARD_END)
        return NULL;
    const unsigned char *head = card->bytes + *at;
    *bytes = head[1] | (size_t)head[2] << 8;
    if (*bytes > HKI_CARD_BYTES - HKI_CARD_HEAD - *at)
        return NULL;
    *at += HKI_CARD_HEAD + *bytes;
    return head;
}

bool hki_card_add(hki_card *card, hki_card_kind kind, const void *data, size_t bytes)
{
    size_t end = 0, length;
    while (next_section(card, &end, &length))
        continue;
    if (end + HKI_CARD_HEAD > HKI_CARD_BYTES || bytes > HKI_CARD_BYTES - HKI_CARD_HEAD - end)
        return false;
    card->bytes[end] = (unsigned char)kind;
    card->bytes[end + 1] = (unsigned char)(bytes & 0xff);
    card->bytes[end + 2] = (unsigned char)(bytes >> 8);
    memcpy(card->bytes + end + HKI_CARD_HEAD, data, bytes);
    return true;
}

const void *hki_card_find(const hki_card *card, hki_card_kind kind, unsigned n, size_t *bytes)
{
    size_t at = 0;
    const unsigned char *head;
    while ((head = next_section(card, &at, bytes)))
        if (head[0] == kind && n-- == 0)
            return head + HKI_CARD_HEAD;
    return NULL;
}
