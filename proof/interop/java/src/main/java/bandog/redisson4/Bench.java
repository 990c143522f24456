package bandog.redisson4;

import bandog.Measurements;
import bandog.Measurements.Lock;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson for bandog's benchmark. The argument is the server's URL. */
public final class Bench {
    /** The lease of a permit. The other locks are renewed by the watchdog. */
    private static final long LEASE_SECONDS = 30;
    /**
     * The watchdog timeout of the clients of a hand-off. Some waiters miss a notification and wait until the lease of the
     * holder has passed. This timeout is shorter than the default, so that the benchmark ends in time.
     */
    private static final long HAND_OFF_WATCHDOG_MILLIS = 3_000;

    /** The value that is put into a map. */
    private static final String VALUE = "x".repeat(100);

    private Bench() {}

    public static void main(String[] args) throws Exception {
        Measurements.serve(
                client(args[0], new Config()),
                client(args[0], new Config().setLockWatchdogTimeout(HAND_OFF_WATCHDOG_MILLIS)),
                client(args[0], new Config().setLockWatchdogTimeout(HAND_OFF_WATCHDOG_MILLIS)));
    }

    private static Measurements.Client client(String url, Config config) {
        config.useSingleServer().setAddress(url);
        RedissonClient redisson = Redisson.create(config);
        return (kind, name, permits) -> lock(redisson, kind, name, permits);
    }

    private static Lock<?> lock(RedissonClient redisson, String kind, String name, int permits) {
        switch (kind) {
            case "mutex":
                return plain(redisson.getLock(name));
            case "fair":
                return plain(redisson.getFairLock(name));
            case "read":
                return plain(redisson.getReadWriteLock(name).readLock());
            case "write":
                return plain(redisson.getReadWriteLock(name).writeLock());
            case "map-put":
                return call(() -> map(redisson).fastPut(name, VALUE));
            case "map-get":
                return call(() -> map(redisson).get(name));
            case "semaphore":
                return semaphore(redisson.getPermitExpirableSemaphore(name), permits);
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    private static RMap<String, String> map(RedissonClient redisson) {
        return redisson.getMap("java-map", StringCodec.INSTANCE);
    }

    /** A call of another object. It is measured as the cycle of a lock that has no release. */
    private static Lock<Object> call(Callable<Object> call) {
        return new Lock<>() {
            @Override
            public Object acquire() throws Exception {
                return call.call();
            }

            @Override
            public void release(Object id) {}
        };
    }

    private static Lock<Boolean> plain(RLock lock) {
        return new Lock<>() {
            @Override
            public Boolean acquire() {
                lock.lock();
                return true;
            }

            @Override
            public void release(Boolean id) {
                lock.unlock();
            }
        };
    }

    private static Lock<String> semaphore(RPermitExpirableSemaphore semaphore, int permits) {
        semaphore.trySetPermits(permits);
        return new Lock<>() {
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
