package bandog.redisson4;

import bandog.Kind;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/**
 * The verbs of RPermitExpirableSemaphore. Permits are answered as their ids, separated by spaces. A lease of -1 ms never
 * expires. The limit, an argument for bandog, is not used.
 */
final class LeasedSemaphores implements Kind {
    private static final TimeUnit MILLIS = TimeUnit.MILLISECONDS;

    private final RedissonClient redisson;

    LeasedSemaphores(RedissonClient redisson) {
        this.redisson = redisson;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(name);
        switch (verb) {
            case "available":
                return String.valueOf(semaphore.availablePermits());
            case "limit":
                return String.valueOf(semaphore.getPermits());
            case "set-if-absent":
                return semaphore.trySetPermits(Integer.parseInt(args[0])) ? "set" : "set already";
            case "set":
                semaphore.setPermits(Integer.parseInt(args[0]));
                return "set";
            case "acquire":
                return held(acquire(semaphore, Integer.parseInt(args[0]), Long.parseLong(args[1])));
            case "try":
                return held(semaphore.tryAcquire(Integer.parseInt(args[0]), 0, Long.parseLong(args[1]), MILLIS));
            case "try-for":
                return held(semaphore.tryAcquire(
                        Integer.parseInt(args[0]), Long.parseLong(args[3]), Long.parseLong(args[1]), MILLIS));
            case "release":
                semaphore.release(List.of(args));
                return "freed";
            case "release-one":
                semaphore.release(args[0]);
                return "freed";
            case "crowd":
                return crowd(semaphore, Integer.parseInt(args[0]), args[1], Integer.parseInt(args[2]));
            default:
                throw Kind.unknown(verb);
        }
    }

    private static List<String> acquire(RPermitExpirableSemaphore semaphore, int take, long lease)
            throws InterruptedException {
        return lease == -1 ? semaphore.acquire(take) : semaphore.acquire(take, lease, MILLIS);
    }

    private static String held(List<String> ids) {
        return ids.isEmpty() ? "busy" : String.join(" ", ids);
    }

    private String crowd(RPermitExpirableSemaphore semaphore, int take, String inUse, int times)
            throws InterruptedException {
        return Crowd.peak(redisson.getAtomicLong(inUse), take, times, turn -> {
            List<String> ids = semaphore.acquire(take, 60, TimeUnit.SECONDS);
            turn.run();
            semaphore.release(ids);
        });
    }
}
