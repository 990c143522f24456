package bandog.shedlock;

import bandog.Counter;
import bandog.Kind;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/** The verbs of SimpleLock. ShedLock does not wait, so the verbs that wait call it again and again. */
final class SimpleLocks implements Kind {
    /** Delay between two calls of a verb that waits. */
    private static final long DELAY_NANOS = TimeUnit.MILLISECONDS.toNanos(2);

    private final ThreadLocal<LockProvider> provider;
    private final Duration atMost;
    private final Map<String, SimpleLock> held = new ConcurrentHashMap<>();

    SimpleLocks(ThreadLocal<LockProvider> provider, Duration atMost) {
        this.provider = provider;
        this.atMost = atMost;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        switch (verb) {
            case "lock":
                held.put(name, waitFor(name));
                return "held";
            case "try":
                return keep(name, take(name, Duration.ZERO));
            case "try-at-least":
                return keep(name, take(name, Duration.ofMillis(Long.parseLong(args[0]))));
            case "unlock":
                held.remove(name).unlock();
                return "freed";
            case "extend":
                return keep(name, held.remove(name).extend(Duration.ofMillis(Long.parseLong(args[0])), Duration.ZERO));
            case "count":
                return Counter.count(args[0], Integer.parseInt(args[1]), turn -> {
                    SimpleLock lock = waitFor(name);
                    try {
                        turn.run(0);
                    } finally {
                        lock.unlock();
                    }
                });
            default:
                throw Kind.unknown(verb);
        }
    }

    private Optional<SimpleLock> take(String name, Duration atLeast) {
        return provider.get().lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
    }

    private SimpleLock waitFor(String name) {
        for (; ; ) {
            Optional<SimpleLock> lock = take(name, Duration.ZERO);
            if (lock.isPresent()) {
                return lock.get();
            }
            LockSupport.parkNanos(DELAY_NANOS);
        }
    }

    private String keep(String name, Optional<SimpleLock> lock) {
        lock.ifPresent(one -> held.put(name, one));
        return lock.isPresent() ? "held" : "busy";
    }
}
