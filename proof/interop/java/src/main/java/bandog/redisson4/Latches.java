package bandog.redisson4;

import bandog.Kind;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The verbs of RCountDownLatch. */
final class Latches implements Kind {
    private final RedissonClient redisson;

    Latches(RedissonClient redisson) {
        this.redisson = redisson;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        RCountDownLatch latch = redisson.getCountDownLatch(name);
        switch (verb) {
            case "set":
                return latch.trySetCount(Long.parseLong(args[0])) ? "set" : "set already";
            case "down":
                latch.countDown();
                return "counted";
            case "await":
                latch.await();
                return "open";
            case "await-for":
                return latch.await(Long.parseLong(args[0]), TimeUnit.MILLISECONDS) ? "open" : "closed";
            case "count":
                return String.valueOf(latch.getCount());
            case "delete":
                return latch.delete() ? "deleted" : "absent";
            default:
                throw Kind.unknown(verb);
        }
    }
}
