#include "base/log.h"

#include "base/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_BYTES = 1536, LEVEL_UNREAD = -1 };

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};

/* Held while a line is written, so that after hk_set_log returns the previous function is not called any more. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;
static struct {
    hk_log_function *function;
    void *context;
    char identity[96];
} sink;
static atomic_int threshold = LEVEL_UNREAD;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child of fork must find the lock free even when another thread of the parent was writing a line. */
static void install_fork_handlers(void)
{
    pthread_atfork(acquire, release, release);
}

static void lock_sink(void)
{
    pthread_once(&fork_handlers, install_fork_handlers);
    acquire();
}

bool hki_log_level_parse(const char *text, hk_log_level *level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcasecmp(text, level_names[i]) == 0) {
            *level = (hk_log_level)i;
            return true;
        }
    }
    return false;
}

static int read_threshold(void)
{
    /* A level that cannot be read means none: hki_settings_check is what reports it. */
    hk_log_level level = HK_LOG_NONE;
    hki_log_level_parse(hki_setting_text(HKI_SET_LOG), &level);
    int unread = LEVEL_UNREAD;
    atomic_compare_exchange_strong(&threshold, &unread, (int)level);
    return atomic_load_explicit(&threshold, memory_order_relaxed);
}

bool hki_log_wants(hk_log_level level)
{
    int limit = atomic_load_explicit(&threshold, memory_order_relaxed);
    if (limit == LEVEL_UNREAD)
        limit = read_threshold();
    return level != HK_LOG_NONE && (int)level <= limit;
}

void hki_log_forget(void)
{
    lock_sink();
    if (sink.function == NULL)
        atomic_store(&threshold, LEVEL_UNREAD);
    release();
}

void hk_set_log(hk_log_function *function, hk_log_level level, void *context)
{
    lock_sink();
    sink.function = function;
    sink.context = context;
    atomic_store(&threshold, function != NULL ? (int)level : LEVEL_UNREAD);
    release();
}

void hki_log_identity(const char *identity)
{
    lock_sink();
    snprintf(sink.identity, sizeof sink.identity, "%s", identity);
    release();
}

/* One write per line, so that the lines of many processes on one terminal do not mix. */
static void write_standard_error(char *line, size_t length)
{
    line[length++] = '\n';
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, line, length);
        if (written <= 0)
            return; /* nowhere to complain to */
        line += written;
        length -= (size_t)written;
    }
}

/* Appends at `length` of a buffer of LINE_BYTES; the last byte stays free for a newline. */
static size_t append(char *line, size_t length, const char *format, va_list arguments)
{
    int wanted = vsnprintf(line + length, LINE_BYTES - 1 - length, format, arguments);
    if (wanted < 0)
        return length;
    length += (size_t)wanted;
    return length < LINE_BYTES - 2 ? length : LINE_BYTES - 2;
}

static size_t append_text(char *line, size_t length, const char *format, ...) __attribute__((format(printf, 3, 4)));
static size_t append_text(char *line, size_t length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    length = append(line, length, format, arguments);
    va_end(arguments);
    return length;
}

void hki_vlog(hk_log_level level, const char *format, va_list arguments)
{
    if (!hki_log_wants(level))
        return;
    char line[LINE_BYTES];
    lock_sink();
    size_t length = 0;
    if (sink.function == NULL)
        length = append_text(line, length, "hocket %s: ", level_names[level]);
    if (sink.identity[0] != '\0')
        length = append_text(line, length, "[%s] ", sink.identity);
    length = append(line, length, format, arguments);
    if (sink.function != NULL)
        sink.function(level, line, sink.context);
    else
        write_standard_error(line, length);
    release();
}

void hki_log(hk_log_level level, const char *format, ...)
{
    if (!hki_log_wants(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    hki_vlog(level, format, arguments);
    va_end(arguments);
}
