#include "tools/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 16,   /* a pipe's usual capacity */
    LONGEST_LINE = 1 << 16, /* longer ones go out in pieces, so that memory stays bounded */
    PIPE_PIECE = 4096       /* what a pipe takes without blocking when poll says that it takes anything */
};

/* ---------------------------------------------------------------------------------------------------------------
 * Sinks
 * ------------------------------------------------------------------------------------------------------------- */

void run_sink_open(run_sink *sink, int fd)
{
    struct stat about;
    *sink = (run_sink){.fd = fd};
    sink->regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

size_t run_sink_waiting(const run_sink *sink)
{
    return sink->end - sink->start;
}

void run_sink_put(run_sink *sink, const void *data, size_t bytes)
{
    if (sink->closed || bytes == 0)
        return;
    if (sink->start > 0 && sink->end + bytes > sink->capacity) {
        memmove(sink->data, sink->data + sink->start, sink->end - sink->start);
        sink->end -= sink->start;
        sink->start = 0;
    }
    if (sink->end + bytes > sink->capacity) {
        size_t capacity = (sink->end + bytes) * 2;
        char *grown = realloc(sink->data, capacity);
        if (!grown)
            return; /* output is lost rather than the job */
        sink->data = grown;
        sink->capacity = capacity;
    }
    memcpy(sink->data + sink->end, data, bytes);
    sink->end += bytes;
}

static bool writable(const run_sink *sink)
{
    struct pollfd descriptor = {.fd = sink->fd, .events = POLLOUT};
    return sink->regular || poll(&descriptor, 1, 0) > 0;
}

/* Standard output is shared with whoever started us, so it is not made non-blocking: instead poll says whether a piece
 * that fits will be taken. */
void run_sink_flush(run_sink *sink)
{
    while (run_sink_waiting(sink) > 0 && writable(sink)) {
        size_t bytes = run_sink_waiting(sink);
        if (!sink->regular && bytes > PIPE_PIECE)
            bytes = PIPE_PIECE;
        ssize_t written = write(sink->fd, sink->data + sink->start, bytes);
        if (written > 0)
            sink->start += (size_t)written;
        else if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else if (written == 0 || errno != EINTR) {
            sink->error = written < 0 && errno != EPIPE ? errno : 0;
            sink->closed = true;
            sink->start = sink->end = 0;
        }
    }
}

void run_sink_free(run_sink *sink)
{
    free(sink->data);
    sink->data = NULL;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Streams
 * ------------------------------------------------------------------------------------------------------------- */

static void put_tag(run_stream *stream)
{
    char tag[16];
    int length = snprintf(tag, sizeof tag, "[%d] ", stream->rank);
    if (stream->tag && length > 0)
        run_sink_put(stream->sink, tag, (size_t)length);
}

static bool keep_partial(run_stream *stream, const char *data, size_t bytes)
{
    if (stream->partial_bytes + bytes > stream->partial_capacity) {
        size_t capacity = (stream->partial_bytes + bytes) * 2;
        char *grown = realloc(stream->partial, capacity);
        if (!grown)
            return false;
        stream->partial = grown;
        stream->partial_capacity = capacity;
    }
    memcpy(stream->partial + stream->partial_bytes, data, bytes);
    stream->partial_bytes += bytes;
    return true;
}

/* Puts what there is of an unfinished line. A tagged one gets a newline, so that every line has its tag. */
static void put_partial(run_stream *stream)
{
    if (stream->partial_bytes == 0)
        return;
    put_tag(stream);
    run_sink_put(stream->sink, stream->partial, stream->partial_bytes);
    if (stream->tag)
        run_sink_put(stream->sink, "\n", 1);
    stream->partial_bytes = 0;
}

/* Puts lines: data ends with a newline, and its first line may have begun in `partial`. */
static void put_lines(run_stream *stream, const char *data, size_t bytes)
{
    if (!stream->tag) {
        put_partial(stream);
        run_sink_put(stream->sink, data, bytes);
        return;
    }
    for (const char *line = data, *end; line < data + bytes; line = end) {
        end = (const char *)memchr(line, '\n', (size_t)(data + bytes - line)) + 1;
        put_tag(stream);
        run_sink_put(stream->sink, stream->partial, stream->partial_bytes);
        stream->partial_bytes = 0;
        run_sink_put(stream->sink, line, (size_t)(end - line));
    }
}

static void forward(run_stream *stream, const char *data, size_t bytes)
{
    const char *last = memrchr(data, '\n', bytes);
    size_t whole = last ? (size_t)(last - data) + 1 : 0;
    if (whole > 0)
        put_lines(stream, data, whole);
    if (whole < bytes && !keep_partial(stream, data + whole, bytes - whole))
        put_partial(stream);
    if (stream->partial_bytes > LONGEST_LINE)
        put_partial(stream);
}

bool run_stream_read(run_stream *stream)
{
    static char data[READ_BYTES];
    if (stream->fd < 0)
        return false;
    ssize_t got = read(stream->fd, data, sizeof data);
    if (got > 0) {
        forward(stream, data, (size_t)got);
        /* Whoever read our output has gone: let the rank notice as if it wrote there itself. */
        if (stream->sink->closed)
            run_stream_close(stream);
        return stream->fd >= 0;
    }
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        run_stream_close(stream);
    return false;
}

void run_stream_close(run_stream *stream)
{
    if (stream->fd < 0)
        return;
    put_partial(stream);
    close(stream->fd);
    stream->fd = -1;
    free(stream->partial);
    stream->partial = NULL;
    stream->partial_capacity = 0;
}
