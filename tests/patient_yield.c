/* sched_yield for ranks that wait in MPI beside others on few cores: it sleeps. Linux 6.18 was seen to let no other
   thread run for up to 96 s while two cores do nothing but yield ("workqueue lockup", "rcu_preempt kthread starved"). */
#include <errno.h>
#include <time.h>

int sched_yield(void) {
    const struct timespec moment = {0, 20000};
    int before = errno;
    nanosleep(&moment, 0);
    errno = before;
    return 0;
}
