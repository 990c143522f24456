/* A wall clock that is another one than that of the machine. A program loads this before the C library (LD_PRELOAD). The file
   in BANDOG_TEST_CLOCK has the difference in nanoseconds, a signed number of 64 bits, and may change while the program runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t none = 0;
static const volatile int64_t *difference = &none;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("BANDOG_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) {
        difference = mapped;
    }
}

int clock_gettime(clockid_t id, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, id, now);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t nanos = now->tv_sec * SECOND + now->tv_nsec + *difference;
        now->tv_sec = nanos / SECOND;
        now->tv_nsec = nanos % SECOND;
    }
    return (int)result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (result == 0 && now) {
        now->tv_sec = precise.tv_sec;
        now->tv_usec = precise.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *out) {
    struct timespec precise;
    time_t now = clock_gettime(CLOCK_REALTIME, &precise) == 0 ? precise.tv_sec : (time_t)-1;
    if (out) {
        *out = now;
    }
    return now;
}

/* The time of the kernel for a time of this clock. A time of a monotonic clock stays what it is: it is much smaller. */
static struct timespec of_kernel(const struct timespec *until) {
    struct timespec moved = *until;
    if (until->tv_sec > 1000000000) {
        int64_t nanos = until->tv_sec * SECOND + until->tv_nsec - *difference;
        moved.tv_sec = nanos / SECOND;
        moved.tv_nsec = nanos % SECOND;
    }
    return moved;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait) {
        wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    struct timespec moved = of_kernel(until);
    return wait(condition, mutex, &moved);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t id,
                           const struct timespec *restrict until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    if (!wait) {
        wait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    }
    struct timespec moved = of_kernel(until);
    return wait(condition, mutex, id, &moved);
}
