/* Memory whose missing pages another thread brings (userfaultfd(2)): a system call that needs one waits for it as an instruction does; a fork, mremap,
 * munmap or madvise waits until it has been told of, no page can be brought until then, and a child's missing pages are asked for by a descriptor of its
 * own. What is mapped anew in place of it is no such memory. As long as one copy of the descriptor is open, nobody goes on without its page. */
#include "prog.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 16 };

static int uffd, told[2], child_uffd = -1;
static char *area, source[PAGE] __attribute__((aligned(PAGE)));

static int bring(int fd, char *to, char fill)
{
    struct uffdio_copy copy = {.dst = (uintptr_t)to, .src = (uintptr_t)source, .len = PAGE};
    memset(source, fill, PAGE);
    return ioctl(fd, UFFDIO_COPY, &copy) == 0 ? 0 : errno;
}

static struct uffd_msg next(int fd)
{
    struct uffd_msg msg;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    check(poll(&ready, 1, 10000) == 1);
    check(read(fd, &msg, sizeof msg) == sizeof msg);
    return msg;
}

static void expect_fault(int fd, char *at, char fill)
{
    struct uffd_msg msg = next(fd);
    check(msg.event == UFFD_EVENT_PAGEFAULT);
    check((msg.arg.pagefault.address & ~(uint64_t)(PAGE - 1)) == (uintptr_t)at);
    check(bring(fd, at, fill) == 0);
}

/* What the main thread does, in its order. */
static void *monitor(void *unused)
{
    struct uffd_msg msg;
    (void)unused;
    expect_fault(uffd, area, 'a');            /* an instruction */
    expect_fault(uffd, area + PAGE, 'b');     /* read(2) */
    struct pollfd event = {.fd = uffd, .events = POLLIN};
    check(poll(&event, 1, 10000) == 1);
    check(bring(uffd, area + 2 * PAGE, 'x') == EAGAIN); /* a fork is on its way */
    msg = next(uffd);
    check(msg.event == UFFD_EVENT_FORK);
    child_uffd = (int)msg.arg.fork.ufd;
    expect_fault(child_uffd, area + 2 * PAGE, 'c');
    check(write(told[1], "f", 1) == 1);
    expect_fault(uffd, area + 2 * PAGE, 'd'); /* the parent's is its own */
    msg = next(uffd);
    check(msg.event == UFFD_EVENT_REMOVE && msg.arg.remove.start == (uintptr_t)area);
    expect_fault(uffd, area, 'e');
    msg = next(uffd);
    check(msg.event == UFFD_EVENT_REMAP && msg.arg.remap.from == (uintptr_t)area + 8 * PAGE);
    char *moved = (char *)(uintptr_t)msg.arg.remap.to;
    msg = next(uffd); /* and of where it was */
    check(msg.event == UFFD_EVENT_UNMAP && msg.arg.remove.start == (uintptr_t)area + 8 * PAGE);
    expect_fault(uffd, moved, 'g');
    msg = next(uffd);
    check(msg.event == UFFD_EVENT_UNMAP && msg.arg.remove.start == (uintptr_t)area + 4 * PAGE);
    check(write(told[1], "u", 1) == 1);
    return NULL;
}

static void *late(void *to)
{
    char byte = area[5 * PAGE];
    check(write(*(int *)to, &byte, 1) == 1);
    return NULL;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    check(uffd >= 0);
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
                                         UFFD_FEATURE_EVENT_UNMAP};
    check(ioctl(uffd, UFFDIO_API, &api) == 0);
    area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(area != MAP_FAILED);
    struct uffdio_register all = {.range = {.start = (uintptr_t)area, .len = PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    check(ioctl(uffd, UFFDIO_REGISTER, &all) == 0);
    int zero = open("/dev/zero", O_RDONLY);
    check(zero >= 0 && pipe(told) == 0);
    pthread_t thread;
    check(pthread_create(&thread, NULL, monitor, NULL) == 0);

    check(area[7] == 'a');
    check(read(zero, area + PAGE, 8) == 8 && area[PAGE] == 0 && area[PAGE + 8] == 'b');
    char byte;
    pid_t child = fork();
    check(child >= 0);
    if (child == 0)
        _exit(area[PAGE + 8] == 'b' && area[2 * PAGE] == 'c' ? 0 : 1);
    check(read(told[0], &byte, 1) == 1 && byte == 'f');
    int status;
    check(waitpid(child, &status, 0) == child && status == 0);
    check(area[2 * PAGE] == 'd');
    check(madvise(area, PAGE, MADV_DONTNEED) == 0 && area[0] == 'e');
    char *place = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(area + 8 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    check(moved != MAP_FAILED && moved[0] == 'g');
    check(munmap(area + 4 * PAGE, PAGE) == 0);
    check(read(told[0], &byte, 1) == 1 && byte == 'u');
    char *anew = mmap(area + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(anew == area + 4 * PAGE && bring(uffd, anew, 'y') == ENOENT && anew[0] == 0);
    check(pthread_join(thread, NULL) == 0);

    /* Who has only a copy of the descriptor keeps it waiting; when the last one is closed a missing page is zeroes. */
    int copy = dup(uffd), ready[2];
    check(copy >= 0 && close(uffd) == 0 && pipe(ready) == 0);
    check(pthread_create(&thread, NULL, late, &ready[1]) == 0);
    struct pollfd fault = {.fd = copy, .events = POLLIN}, answer = {.fd = ready[0], .events = POLLIN};
    check(poll(&fault, 1, 10000) == 1 && poll(&answer, 1, 100) == 0);
    check(close(copy) == 0);
    check(read(ready[0], &byte, 1) == 1 && byte == 0 && pthread_join(thread, NULL) == 0);
    return ok();
}
