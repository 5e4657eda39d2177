/* Sinks: incoming bytes are copied to, or reduced into, their destination as they are handed over. */
#include "msg/msg.h"

#include <stdlib.h>
#include <string.h>

void hki_sink_copy(hki_sink *sink, const struct iovec *destination, uint32_t pieces, uint64_t bytes)
{
    sink->destination = destination;
    sink->local = NULL;
    sink->reducer = NULL;
    sink->pieces = pieces;
    sink->piece = 0;
    sink->offset = 0;
    sink->room = bytes;
    sink->divisor = 1;
    sink->carried = 0;
    sink->incoming_left = false;
    sink->streaming = false;
    sink->failed = false;
    sink->carry = NULL;
}

void hki_sink_advance(hki_sink *sink, size_t bytes)
{
    sink->room -= bytes;
    sink->offset += bytes;
    while (sink->piece < sink->pieces && sink->offset >= sink->destination[sink->piece].iov_len) {
        sink->offset -= sink->destination[sink->piece].iov_len;
        sink->piece++;
    }
}

size_t hki_sink_direct(const hki_sink *sink, void **where)
{
    if (sink->reducer || sink->piece >= sink->pieces)
        return 0;
    const struct iovec *piece = &sink->destination[sink->piece];
    *where = (char *)piece->iov_base + sink->offset;
    size_t left = piece->iov_len - sink->offset;
    return left < sink->room ? left : (size_t)sink->room;
}

/* Reduces whole elements that lie within one piece. */
static void reduce_run(hki_sink *sink, const void *incoming, size_t bytes)
{
    const hki_reducer *reducer = sink->reducer;
    char *out = (char *)sink->destination[sink->piece].iov_base + sink->offset;
    const char *local = (const char *)sink->local[sink->piece].iov_base + sink->offset;
    uint64_t count = bytes / reducer->element_bytes;
    if (sink->incoming_left)
        hki_reduce_two(reducer, out, incoming, local, count, sink->streaming);
    else
        hki_reduce_two(reducer, out, local, incoming, count, sink->streaming);
    if (sink->divisor > 1)
        hki_reduce_finish(reducer, out, count, sink->divisor);
    hki_sink_advance(sink, bytes);
}

static size_t run_length(const hki_sink *sink, size_t bytes)
{
    size_t left = sink->destination[sink->piece].iov_len - sink->offset;
    return left < bytes ? left : bytes;
}

/* Collects a split element; returns how many bytes were taken. */
static size_t carry_on(hki_sink *sink, const char *data, size_t bytes)
{
    uint32_t element = sink->reducer->element_bytes;
    size_t wanted = element - sink->carried;
    size_t take = bytes < wanted ? bytes : wanted;
    if (!sink->carry)
        sink->carry = element <= sizeof sink->small ? sink->small : malloc(element);
    if (!sink->carry)
        sink->failed = true;
    else
        memcpy(sink->carry + sink->carried, data, take);
    sink->carried += (uint32_t)take;
    if (sink->carried == element) {
        sink->carried = 0;
        if (sink->carry)
            reduce_run(sink, sink->carry, element);
        else
            hki_sink_advance(sink, element);
    }
    return take;
}

static void feed_reducing(hki_sink *sink, const char *data, size_t bytes)
{
    uint32_t element = sink->reducer->element_bytes;
    while (bytes > 0 && sink->piece < sink->pieces) {
        size_t run = sink->carried ? 0 : run_length(sink, bytes) / element * element;
        if (run == 0)
            run = carry_on(sink, data, bytes);
        else
            reduce_run(sink, data, run);
        data += run;
        bytes -= run;
    }
}

void hki_sink_feed(hki_sink *sink, const void *data, size_t bytes)
{
    const char *in = data;
    if (bytes > sink->room - sink->carried)
        bytes = (size_t)(sink->room - sink->carried);
    if (sink->reducer) {
        feed_reducing(sink, in, bytes);
        return;
    }
    while (bytes > 0 && sink->piece < sink->pieces) {
        size_t run = run_length(sink, bytes);
        hki_copy_bytes((char *)sink->destination[sink->piece].iov_base + sink->offset, in, run, sink->streaming);
        hki_sink_advance(sink, run);
        in += run;
        bytes -= run;
    }
}

void hki_sink_close(hki_sink *sink)
{
    if (sink->carry && sink->carry != sink->small)
        free(sink->carry);
    sink->carry = NULL;
    sink->carried = 0;
}
