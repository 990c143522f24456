package bandog.redisson4;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson for bandog's benchmark. The argument is the server's URL.
 *
 * <p>Each line on stdin is a command with words separated by spaces, and the answer is one line on stdout:
 *
 * <ul>
 *   <li>{@code cycles KIND WORKERS NAMES MILLIS}: this number of threads lock and release for this time. Thread i uses
 *       name i modulo NAMES. The answer is the number of cycles per second and in all, and the cycles of the threads
 *       that were served least and most.
 *   <li>{@code hand-off KIND TURNS PAUSE}: a client holds the lock and another client waits. PAUSE milliseconds later the
 *       lock is released. The answer is one number for each turn: nanoseconds from the call of the release until the
 *       other client has the lock. After 10 s there are no further turns.
 * </ul>
 */
public final class Bench {
    /** The lease of a permit. The other locks are renewed by the watchdog. */
    private static final long LEASE_SECONDS = 30;

    /** A lock of any kind. A permit has an id, which its release needs; for other locks the id is empty. */
    private interface Lock {
        String acquire() throws InterruptedException;

        void release(String id);
    }

    /** The cycles of one thread, and how many of them ended in time. */
    private record Served(long cycles, long inTime) {}

    /** A granted lock, and the time at which its owner learnt of the grant. */
    private record Granted(String id, long at) {}

    /**
     * The watchdog timeout of the clients of a hand-off. Some waiters miss a notification and wait until the lease of the
     * holder has passed. This timeout is shorter than the default, so that the benchmark ends in time.
     */
    private static final long HAND_OFF_WATCHDOG_MILLIS = 3_000;
    /** A hand-off command stops after this time. */
    private static final long HAND_OFF_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final RedissonClient client;
    private final RedissonClient holder;
    private final RedissonClient waiter;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    /** The threads of the two clients of a hand-off. A lock must be released by the thread that took it. */
    private final ExecutorService holding = Executors.newSingleThreadExecutor();
    private final ExecutorService waiting = Executors.newSingleThreadExecutor();

    private Bench(String url) {
        client = connect(url, new Config());
        holder = connect(url, new Config().setLockWatchdogTimeout(HAND_OFF_WATCHDOG_MILLIS));
        waiter = connect(url, new Config().setLockWatchdogTimeout(HAND_OFF_WATCHDOG_MILLIS));
    }

    public static void main(String[] args) throws Exception {
        Bench bench = new Bench(args[0]);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(bench.obey(line.split(" ")));
        }
        // The input has ended, so the benchmark has ended, or this process has no benchmark any more.
        Runtime.getRuntime().halt(0);
    }

    private static RedissonClient connect(String url, Config config) {
        config.useSingleServer().setAddress(url);
        return Redisson.create(config);
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "cycles":
                return cycles(words[1], number(words[2]), number(words[3]), number(words[4]));
            case "hand-off":
                return handOff(words[1], number(words[2]), number(words[3]));
            default:
                throw new IOException("unknown command " + words[0]);
        }
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private String cycles(String kind, int workers, int names, int millis) throws Exception {
        CyclicBarrier start = new CyclicBarrier(workers + 1);
        List<Future<Served>> running = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            Lock lock = lock(client, kind, "java-" + kind + "-" + names + "-" + i % names, 8);
            running.add(threads.submit(worker(lock, start, millis)));
        }
        start.await();
        long all = 0;
        long inTime = 0;
        long least = Long.MAX_VALUE;
        long most = 0;
        for (Future<Served> worker : running) {
            Served served = worker.get();
            all += served.cycles;
            least = Math.min(least, served.cycles);
            most = Math.max(most, served.cycles);
            inTime += served.inTime;
        }
        return inTime * 1000.0 / millis + " " + all + " " + least + " " + most;
    }

    private static Callable<Served> worker(Lock lock, CyclicBarrier start, int millis) {
        return () -> {
            start.await();
            long stop = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
            long cycles = 0;
            while (System.nanoTime() - stop < 0) {
                lock.release(lock.acquire());
                cycles++;
            }
            // The last cycle ended after the time, and may have waited long.
            return new Served(cycles, Math.max(0, cycles - 1));
        };
    }

    private String handOff(String kind, int turns, int pause) throws Exception {
        String name = "java-hand-off-" + kind;
        // A reader waits only for a writer.
        Lock held = lock(holder, kind.equals("read") ? "write" : kind, name, 1);
        Lock wanted = lock(waiter, kind, name, 1);
        StringBuilder passed = new StringBuilder();
        long begin = System.nanoTime();
        for (int turn = 0; turn < turns && System.nanoTime() - begin < HAND_OFF_NANOS; turn++) {
            String id = holding.submit(held::acquire).get();
            Future<Granted> taking = waiting.submit(() -> new Granted(wanted.acquire(), System.nanoTime()));
            // Afterwards the waiter has subscribed, and its thread is parked.
            Thread.sleep(pause);
            Future<Long> released = holding.submit(() -> {
                long now = System.nanoTime();
                held.release(id);
                return now;
            });
            Granted taken = taking.get();
            passed.append(taken.at - released.get()).append(' ');
            waiting.submit(() -> wanted.release(taken.id)).get();
        }
        return passed.toString().trim();
    }

    private static Lock lock(RedissonClient redisson, String kind, String name, int permits) {
        switch (kind) {
            case "mutex":
                return plain(redisson.getLock(name));
            case "fair":
                return plain(redisson.getFairLock(name));
            case "read":
                return plain(redisson.getReadWriteLock(name).readLock());
            case "write":
                return plain(redisson.getReadWriteLock(name).writeLock());
            case "semaphore":
                return semaphore(redisson.getPermitExpirableSemaphore(name), permits);
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    private static Lock plain(RLock lock) {
        return new Lock() {
            @Override
            public String acquire() {
                lock.lock();
                return "";
            }

            @Override
            public void release(String id) {
                lock.unlock();
            }
        };
    }

    private static Lock semaphore(RPermitExpirableSemaphore semaphore, int permits) {
        semaphore.trySetPermits(permits);
        return new Lock() {
            @Override
            public String acquire() throws InterruptedException {
                return semaphore.acquire(LEASE_SECONDS, TimeUnit.SECONDS);
            }

            @Override
            public void release(String id) {
                semaphore.release(id);
            }
        };
    }
}
