#include "base/words.h"

#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

size_t hki_word_distance(const char *left, size_t length, const char *right)
{
    size_t row[LONGEST], right_length = strlen(right);
    if (length >= LONGEST || right_length >= LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= right_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= right_length; j++) {
            size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (left[i - 1] != right[j - 1]));
            diagonal = above;
        }
    }
    return row[right_length];
}
