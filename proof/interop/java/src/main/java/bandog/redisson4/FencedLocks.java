package bandog.redisson4;

import bandog.Counter;
import bandog.Kind;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** The verbs of RFencedLock that RLock does not have. */
final class FencedLocks implements Kind {
    private final RedissonClient redisson;

    FencedLocks(RedissonClient redisson) {
        this.redisson = redisson;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        RFencedLock lock = redisson.getFencedLock(name);
        switch (verb) {
            case "lock":
                return String.valueOf(lock.lockAndGetToken());
            case "token":
                return String.valueOf(lock.getToken());
            case "count":
                return Counter.count(args[0], Integer.parseInt(args[1]), turn -> {
                    long fence = lock.lockAndGetToken();
                    try {
                        turn.run(fence);
                    } finally {
                        lock.unlock();
                    }
                });
            default:
                throw Kind.unknown(verb);
        }
    }
}
