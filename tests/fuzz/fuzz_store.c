/* Questions to a store over TCP, cut into pieces as the first byte says, and the answers of one. */
#include "boot/store_wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear_questions(const uint8_t *data, size_t size, size_t piece)
{
    hki_question question = {0};
    for (size_t at = 0; at < size;) {
        size_t room;
        void *to = hki_question_room(&question, &room);
        size_t bytes = size - at < piece ? size - at : piece;
        bytes = bytes < room ? bytes : room;
        if (bytes == 0)
            abort(); /* it would wait for ever */
        memcpy(to, data + at, bytes);
        at += bytes;
        hki_question_state state = hki_question_took(&question, bytes);
        if (state == HKI_QUESTION_BAD)
            break;
        if (state == HKI_QUESTION_COMPLETE) {
            if (strlen(question.key) != question.key_bytes ||
                (question.kind == HKI_STORE_SET && question.argument > HKI_STORE_VALUE_MAX))
                abort();
            hki_question_clear(&question);
        }
    }
    hki_question_clear(&question);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hk_status status;
    uint64_t bytes;
    if (size == 0)
        return 0;
    hear_questions(data + 1, size - 1, (size_t)data[0] + 1);
    if (size > HKI_STORE_HEADER && hki_store_read_answer(data + 1, &status, &bytes) && bytes > HKI_STORE_VALUE_MAX)
        abort();
    return 0;
}
