/* The cards that ranks hand to each other while a context is made. */
#include "comm/card.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sections_are_found_by_kind_and_number(void **state)
{
    (void)state;
    hki_card card = {{0}};
    size_t bytes;
    assert_null(hki_card_find(&card, HKI_CARD_SEAT, 0, &bytes));
    assert_true(hki_card_add(&card, HKI_CARD_ADDRESS, "one", 3));
    assert_true(hki_card_add(&card, HKI_CARD_SEAT, "", 0));
    assert_true(hki_card_add(&card, HKI_CARD_ADDRESS, "second", 6));
    const char *found = hki_card_find(&card, HKI_CARD_ADDRESS, 1, &bytes);
    assert_non_null(found);
    assert_int_equal(bytes, 6);
    assert_memory_equal(found, "second", 6);
    assert_non_null(hki_card_find(&card, HKI_CARD_SEAT, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_null(hki_card_find(&card, HKI_CARD_ADDRESS, 2, &bytes));
    assert_null(hki_card_find(&card, HKI_CARD_FIGURES, 0, &bytes));
}

static void a_card_has_room_for_so_much(void **state)
{
    (void)state;
    static unsigned char much[HKI_CARD_BYTES];
    hki_card card = {{0}};
    size_t bytes;
    assert_false(hki_card_add(&card, HKI_CARD_FIGURES, much, HKI_CARD_BYTES));
    assert_true(hki_card_add(&card, HKI_CARD_SEAT, "here", 4));
    hki_card before = card;
    size_t left = HKI_CARD_BYTES - 4 - 2 * HKI_CARD_HEAD;
    assert_false(hki_card_add(&card, HKI_CARD_FIGURES, much, left + 1));
    assert_memory_equal(&before, &card, sizeof card);
    assert_true(hki_card_add(&card, HKI_CARD_FIGURES, much, left));
    assert_non_null(hki_card_find(&card, HKI_CARD_FIGURES, 0, &bytes));
    assert_int_equal(bytes, left);
    assert_false(hki_card_add(&card, HKI_CARD_SEAT, "", 0));
}

/* Whatever comes from a peer, nothing outside the card is looked at. */
static void cards_of_nonsense_end_where_it_begins(void **state)
{
    (void)state;
    hki_card card;
    size_t bytes;
    for (unsigned byte = 1; byte < 256; byte++) {
        memset(&card, (int)byte, sizeof card);
        for (unsigned n = 0; n < HKI_CARD_BYTES; n++) {
            const unsigned char *found = hki_card_find(&card, (hki_card_kind)byte, n, &bytes);
            if (!found)
                break;
            assert_true(found >= card.bytes && found + bytes <= card.bytes + HKI_CARD_BYTES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_are_found_by_kind_and_number),
        cmocka_unit_test(a_card_has_room_for_so_much),
        cmocka_unit_test(cards_of_nonsense_end_where_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
