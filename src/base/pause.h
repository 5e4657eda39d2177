/* What a loop that polls tells its CPU: another thread of the core, or another core, has more use for the moment. */
#ifndef HKI_BASE_PAUSE_H
#define HKI_BASE_PAUSE_H

static inline void hki_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
