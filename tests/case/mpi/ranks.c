// A parallel program in four ways: hello, ring, sum, and stay (until it is killed); rank 3 `fails` with 7 at the end, or `aborts` all with 7.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Debian's MPICH (4.0.2 with UCX over TCP) hangs in MPI_Finalize, on one machine without shoal too, when some ranks are in it while connections of others
// are yet being made. So all are made before, and everybody has a while to answer.
static void finish(void)
{
    int mine[64] = {0}, theirs[64], there;
    for (int i = 0; i < 3; i++)
        MPI_Alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    for (double end = MPI_Wtime() + 0.3; MPI_Wtime() < end; usleep(1000))
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "hello";
    char host[256];
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host);
    if (!strcmp(way, "hello")) {
        printf("%d of %d on %s\n", rank, size, host);
    } else if (!strcmp(way, "ring")) {
        // Each adds one to what comes round.
        if (rank == 0)
            token = 1;
        else
            MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), token++;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("ring %d\n", token);
        }
    } else if (!strcmp(way, "sum")) {
        int part[1000], all[1000], good = 1;
        for (int i = 0; i < 1000; i++)
            part[i] = rank + i;
        MPI_Allreduce(part, all, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 1000; i++)
            good &= all[i] == size * i + size * (size - 1) / 2;
        MPI_Allreduce(&good, &token, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (rank == 0)
            printf("sum %d\n", token);
    } else if (!strcmp(way, "fails")) {
        MPI_Barrier(MPI_COMM_WORLD);
        finish();
        return rank == 3 ? 7 : 0;
    } else if (!strcmp(way, "aborts")) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 3)
            MPI_Abort(MPI_COMM_WORLD, 7);
        sleep(1000);
    } else if (!strcmp(way, "stay")) {
        // One rank is in a session of its own and ignores what can be ignored.
        if (rank == 5) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            signal(SIGINT, SIG_IGN);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            printf("rea" "dy\n"), fflush(stdout);
        for (;;)
            sleep(1000);
    }
    finish();
    return 0;
}
