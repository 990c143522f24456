package bandog.redisson4;

import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;

/** The number of permits of one semaphore that are in use in all processes, as a counter on the server. */
final class Crowd {
    /** Time for which permits are held, so that the holders overlap. */
    private static final long HELD_NANOS = 200_000;

    private Crowd() {}

    /** Takes permits, runs a turn and releases the permits. */
    interface Protection {
        void run(Runnable turn) throws InterruptedException;
    }

    /** Takes this number of permits repeatedly. Returns the highest number of permits that were in use at once. */
    static String peak(RAtomicLong inUse, int take, int times, Protection protection) throws InterruptedException {
        long[] peak = {0};
        for (int i = 0; i < times; i++) {
            protection.run(() -> {
                peak[0] = Math.max(peak[0], inUse.addAndGet(take));
                LockSupport.parkNanos(HELD_NANOS);
                inUse.addAndGet(-take);
            });
        }
        return String.valueOf(peak[0]);
    }
}
