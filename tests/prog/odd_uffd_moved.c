/* Memory whose missing pages another thread brings (userfaultfd(2)): of pages in two mappings none is brought, with ENOENT, as where nothing is missing; and of
 * memory that moves after the call has begun it says ENOENT too, before it tells of that. Every call after that fails with EAGAIN until it has been told. */
#include "prog.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE, SECONDS = 3 };

static int uffd;
static char source[2 * PAGE] __attribute__((aligned(PAGE)));
static char *here, *there;
static volatile int enough;

static int bring(char *to, size_t length)
{
    struct uffdio_copy copy = {.dst = (uintptr_t)to, .src = (uintptr_t)source, .len = length};
    return ioctl(uffd, UFFDIO_COPY, &copy) == 0 ? 0 : errno;
}

static void *move(void *unused)
{
    (void)unused;
    while (!enough) {
        check(mremap(here, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
        check(mremap(there, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
    }
    check(munmap(here, SIZE) == 0);
    return NULL;
}

/* The address from which it goes on: there, once it has been told. */
static char *told(char *at)
{
    struct uffd_msg msg;
    while (read(uffd, &msg, sizeof msg) == sizeof msg) {
        check(msg.event == UFFD_EVENT_REMAP || msg.event == UFFD_EVENT_UNMAP);
        if (msg.event == UFFD_EVENT_REMAP)
            at = (char *)(uintptr_t)msg.arg.remap.to;
        else if (msg.arg.remove.start == (uintptr_t)at)
            return NULL;
    }
    return at;
}

static char *room(void)
{
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED);
    return at;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    check(uffd >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_UNMAP};
    check(ioctl(uffd, UFFDIO_API, &api) == 0);
    here = room();
    there = room();
    struct uffdio_register all = {.range = {(uintptr_t)here, SIZE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    check(ioctl(uffd, UFFDIO_REGISTER, &all) == 0);

    check(mprotect(here + 8 * PAGE, PAGE, PROT_READ) == 0);
    check(bring(here + 7 * PAGE, 2 * PAGE) == ENOENT);
    check(bring(here + 7 * PAGE, PAGE) == 0 && bring(here + 8 * PAGE, PAGE) == 0);
    check(bring(here + 8 * PAGE, PAGE) == EEXIST);
    check(mprotect(here + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);

    pthread_t mover;
    struct timespec begin, now;
    int moved = 0;
    check(pthread_create(&mover, NULL, move, NULL) == 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (char *at = here; at;) {
        int outcome = bring(at, PAGE);
        if (outcome == ENOENT) {
            moved++;
            check(bring(at, PAGE) == EAGAIN);
            outcome = EAGAIN;
        }
        check(outcome == 0 || outcome == EEXIST || outcome == EAGAIN);
        if (outcome == EAGAIN)
            at = told(at);
        clock_gettime(CLOCK_MONOTONIC, &now);
        enough |= moved > 2 || now.tv_sec - begin.tv_sec >= SECONDS;
    }
    check(pthread_join(mover, NULL) == 0);
    return ok();
}
