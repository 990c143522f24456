package bandog;

import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.redisson.api.RLock;

/** The verbs of RLock: of a plain lock, of a fair lock and of both halves of a read-write lock. */
final class Locks implements Kind {
    private final Function<String, RLock> locks;

    Locks(Function<String, RLock> locks) {
        this.locks = locks;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        // Each command gets a new lock object, because a lock object remembers the lease of its last call.
        RLock lock = locks.apply(name);
        switch (verb) {
            case "lock":
                lock.lock();
                return "held";
            case "lease":
                lock.lock(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
                return "held";
            case "try":
                return lock.tryLock() ? "held" : "busy";
            case "try-for":
                return lock.tryLock(Long.parseLong(args[0]), TimeUnit.MILLISECONDS) ? "held" : "busy";
            case "unlock":
                lock.unlock();
                return "freed";
            case "force":
                return lock.forceUnlock() ? "freed" : "free already";
            case "count":
                return Counter.count(args[0], Integer.parseInt(args[1]), under(lock));
            case "check":
                return Counter.check(args[0], Integer.parseInt(args[1]), under(lock));
            case "turns":
                return turns(lock, Long.parseLong(args[0]));
            default:
                throw Kind.unknown(verb);
        }
    }

    private static Counter.Protection under(RLock lock) {
        return turn -> {
            lock.lock();
            try {
                turn.run(0);
            } finally {
                lock.unlock();
            }
        };
    }

    /** Takes and frees the lock repeatedly for this time. Returns the number of turns and the longest wait in µs. */
    private static String turns(RLock lock, long millis) {
        long start = System.nanoTime();
        long longest = 0;
        int turns = 0;
        for (long now = start; now - start < millis * 1_000_000; turns++) {
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - now);
            lock.unlock();
            now = System.nanoTime();
        }
        return turns + " " + longest / 1000;
    }
}
