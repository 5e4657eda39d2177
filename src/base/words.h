/* Which word was meant, when the one given is unknown. */
#ifndef HKI_BASE_WORDS_H
#define HKI_BASE_WORDS_H

#include <stddef.h>

/* Levenshtein's distance: how many characters to insert, drop or change to make one word of the other. `length` is the
 * left word's. Words of 64 characters and more count as 64 apart. */
size_t hki_word_distance(const char *left, size_t length, const char *right);

#endif
