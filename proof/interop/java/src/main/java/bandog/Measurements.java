package bandog;

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

/**
 * A library of locks for bandog's benchmark.
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
public final class Measurements {
    /** A lock of any kind. A permit has an id, which its release needs; other locks have an id without a meaning. */
    public interface Lock<I> {
        I acquire() throws Exception;

        void release(I id) throws Exception;
    }

    /** A client of the library. */
    public interface Client {
        /** The limit of a semaphore is {@code permits}. */
        Lock<?> lock(String kind, String name, int permits) throws Exception;
    }

    /** The cycles of one thread, and how many of them ended in time. */
    private record Served(long cycles, long inTime) {}

    /** A lock that is held, and the time at which its owner learnt of the grant. */
    private record Held(Callable<Void> release, long at) {}

    /** A hand-off command stops after this time. */
    private static final long HAND_OFF_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final Client client;
    private final Client holder;
    private final Client waiter;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    /** The threads of the two clients of a hand-off. A lock must be released by the thread that took it. */
    private final ExecutorService holding = Executors.newSingleThreadExecutor();
    private final ExecutorService waiting = Executors.newSingleThreadExecutor();

    private Measurements(Client client, Client holder, Client waiter) {
        this.client = client;
        this.holder = holder;
        this.waiter = waiter;
    }

    /** Obeys the commands until the input ends. The hand-offs are between {@code holder} and {@code waiter}. */
    public static void serve(Client client, Client holder, Client waiter) throws Exception {
        Measurements measurements = new Measurements(client, holder, waiter);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(measurements.obey(line.split(" ")));
        }
        // The input has ended, so the benchmark has ended, or this process has no benchmark any more.
        Runtime.getRuntime().halt(0);
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
            Lock<?> lock = client.lock(kind, "java-" + kind + "-" + names + "-" + i % names, 8);
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

    private static <I> Callable<Served> worker(Lock<I> lock, CyclicBarrier start, int millis) {
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
        Lock<?> held = holder.lock(kind.equals("read") ? "write" : kind, name, 1);
        Lock<?> wanted = waiter.lock(kind, name, 1);
        StringBuilder passed = new StringBuilder();
        long begin = System.nanoTime();
        for (int turn = 0; turn < turns && System.nanoTime() - begin < HAND_OFF_NANOS; turn++) {
            Callable<Void> release = holding.submit(() -> take(held)).get().release;
            Future<Held> taking = waiting.submit(() -> take(wanted));
            // Afterwards the waiter is parked.
            Thread.sleep(pause);
            Future<Long> released = holding.submit(() -> {
                long now = System.nanoTime();
                release.call();
                return now;
            });
            Held taken = taking.get();
            passed.append(taken.at - released.get()).append(' ');
            waiting.submit(taken.release).get();
        }
        return passed.toString().trim();
    }

    private static <I> Held take(Lock<I> lock) throws Exception {
        I id = lock.acquire();
        long now = System.nanoTime();
        return new Held(
                () -> {
                    lock.release(id);
                    return null;
                },
                now);
    }
}
