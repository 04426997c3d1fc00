/* A process that preloads this library has a clock that is SECONDS_AHEAD ahead. Monotonic clocks stay right. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void find_real_gettime(void)
{
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    /* Other libraries may ask for the time before this one is initialized. */
    int failed = real_gettime ? real_gettime(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += SECONDS_AHEAD;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    int failed = clock_gettime(CLOCK_REALTIME, &found);
    (void)zone;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *seconds)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (seconds)
        *seconds = found.tv_sec;
    return found.tv_sec;
}

/* Defines a function that waits until a deadline. Deadlines by a monotonic clock, which are small, are not shifted. */
#define WAITS_UNTIL_DEADLINE(name, parameters, ...)                             \
    int name parameters                                                         \
    {                                                                           \
        struct timespec real = *deadline;                                       \
        if (real.tv_sec > 1000000000)                                           \
            real.tv_sec -= SECONDS_AHEAD;                                       \
        return ((int(*) parameters)dlsym(RTLD_NEXT, #name))(__VA_ARGS__, &real); \
    }

WAITS_UNTIL_DEADLINE(pthread_cond_timedwait,
                     (pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                      const struct timespec *restrict deadline),
                     condition, mutex)
WAITS_UNTIL_DEADLINE(pthread_mutex_timedlock,
                     (pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline), mutex)
WAITS_UNTIL_DEADLINE(sem_timedwait, (sem_t *restrict semaphore, const struct timespec *restrict deadline), semaphore)
