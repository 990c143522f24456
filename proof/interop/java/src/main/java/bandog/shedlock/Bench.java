package bandog.shedlock;

import bandog.Measurements;
import bandog.Measurements.Lock;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/** ShedLock for bandog's benchmark. The argument is a URL as bandog has it. Each lock has a connection of its own. */
public final class Bench {
    private static final Duration AT_MOST = Duration.ofSeconds(30);

    private Bench() {}

    public static void main(String[] args) throws Exception {
        Providers providers = new Providers(URI.create(args[0]));
        Measurements.Client client = (kind, name, permits) -> lock(providers.connect(), name);
        Measurements.serve(client, client, client);
    }

    /** A lock that is always free. ShedLock does not wait. */
    private static Lock<SimpleLock> lock(LockProvider provider, String name) {
        return new Lock<>() {
            @Override
            public SimpleLock acquire() {
                return provider.lock(new LockConfiguration(Instant.now(), name, AT_MOST, Duration.ZERO)).orElseThrow();
            }

            @Override
            public void release(SimpleLock lock) {
                lock.unlock();
            }
        };
    }
}
