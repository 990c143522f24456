package bandog.redisson4;

import bandog.Kind;
import java.time.Duration;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The verbs of RSemaphore. */
final class Semaphores implements Kind {
    private final RedissonClient redisson;

    Semaphores(RedissonClient redisson) {
        this.redisson = redisson;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        RSemaphore semaphore = redisson.getSemaphore(name);
        if (verb.equals("available")) {
            return String.valueOf(semaphore.availablePermits());
        }
        // The first argument of all other verbs is a number of permits.
        int permits = Integer.parseInt(args[0]);
        switch (verb) {
            case "set-if-absent":
                return semaphore.trySetPermits(permits) ? "set" : "set already";
            case "add":
                semaphore.addPermits(permits);
                return "set";
            case "acquire":
                semaphore.acquire(permits);
                return "held";
            case "try":
                return semaphore.tryAcquire(permits) ? "held" : "busy";
            case "try-for":
                return semaphore.tryAcquire(permits, Duration.ofMillis(Long.parseLong(args[1]))) ? "held" : "busy";
            case "release":
                semaphore.release(permits);
                return "freed";
            case "crowd":
                return Crowd.peak(redisson.getAtomicLong(args[1]), permits, Integer.parseInt(args[2]), turn -> {
                    semaphore.acquire(permits);
                    turn.run();
                    semaphore.release(permits);
                });
            default:
                throw Kind.unknown(verb);
        }
    }
}
