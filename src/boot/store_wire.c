#include "boot/store_wire.h"

#include "net/wire.h"

#include <stdlib.h>
#include <string.h>

void hki_store_write_question(uint8_t header[HKI_STORE_HEADER], uint32_t kind, size_t key_bytes, uint64_t argument)
{
    hki_wire_put32(header, kind);
    hki_wire_put32(header + 4, (uint32_t)key_bytes);
    hki_wire_put64(header + 8, argument);
}

void hki_store_write_answer(uint8_t header[HKI_STORE_HEADER], hk_status status, uint64_t bytes)
{
    hki_wire_put32(header, (uint32_t)status);
    hki_wire_put32(header + 4, 0);
    hki_wire_put64(header + 8, bytes);
}

bool hki_store_read_answer(const uint8_t header[HKI_STORE_HEADER], hk_status *status, uint64_t *bytes)
{
    uint32_t code = hki_wire_get32(header);
    uint64_t length = hki_wire_get64(header + 8);
    if (code > HK_ERR_INTERNAL || hki_wire_get32(header + 4) != 0 || length > HKI_STORE_VALUE_MAX ||
        (code != HK_OK && length != 0))
        return false;
    *status = (hk_status)code;
    *bytes = length;
    return true;
}

static size_t value_bytes(const hki_question *question)
{
    return question->kind == HKI_STORE_SET ? (size_t)question->argument : 0;
}

static size_t whole_bytes(const hki_question *question)
{
    return HKI_STORE_HEADER + question->key_bytes + value_bytes(question);
}

void *hki_question_room(hki_question *question, size_t *bytes)
{
    size_t at = question->moved;
    if (at < HKI_STORE_HEADER) {
        *bytes = HKI_STORE_HEADER - at;
        return question->header + at;
    }
    at -= HKI_STORE_HEADER;
    if (at < question->key_bytes) {
        *bytes = question->key_bytes - at;
        return question->key + at;
    }
    at -= question->key_bytes;
    *bytes = value_bytes(question) - at;
    return question->body + at;
}

/* The header is there: what it says is checked before anything is allocated. */
static bool hear_header(hki_question *question)
{
    question->kind = hki_wire_get32(question->header);
    question->key_bytes = hki_wire_get32(question->header + 4);
    question->argument = hki_wire_get64(question->header + 8);
    if ((question->kind != HKI_STORE_SET && question->kind != HKI_STORE_GET) || question->key_bytes == 0 ||
        question->key_bytes > HKI_STORE_KEY_MAX || value_bytes(question) > HKI_STORE_VALUE_MAX)
        return false;
    question->body = value_bytes(question) > 0 ? malloc(value_bytes(question)) : NULL;
    return value_bytes(question) == 0 || question->body != NULL;
}

hki_question_state hki_question_took(hki_question *question, size_t bytes)
{
    size_t before = question->moved;
    question->moved += bytes;
    if (question->moved < HKI_STORE_HEADER)
        return HKI_QUESTION_MORE;
    if (before < HKI_STORE_HEADER && !hear_header(question))
        return HKI_QUESTION_BAD;
    if (question->moved < whole_bytes(question))
        return HKI_QUESTION_MORE;
    question->key[question->key_bytes] = '\0';
    if (strlen(question->key) != question->key_bytes)
        return HKI_QUESTION_BAD;
    return hki_store_check(question->key, value_bytes(question)) == HK_OK ? HKI_QUESTION_COMPLETE : HKI_QUESTION_BAD;
}

void hki_question_clear(hki_question *question)
{
    free(question->body);
    memset(question, 0, sizeof *question);
}
