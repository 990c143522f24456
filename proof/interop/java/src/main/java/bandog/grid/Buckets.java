package bandog.grid;

import java.time.Duration;
import org.redisson.api.RBucket;

/** The verbs of RBucket. */
final class Buckets {
    private Buckets() {}

    static String obey(RBucket<Object> bucket, String verb, String[] args) {
        switch (verb) {
            case "get":
                return Words.of(bucket.get());
            case "set":
                bucket.set(Words.value(args[0]));
                return "set";
            case "set-null":
                bucket.set(null);
                return "set";
            case "set-keep":
                bucket.setAndKeepTTL(Words.value(args[0]));
                return "set";
            case "set-for":
                bucket.set(Words.value(args[0]), Duration.ofMillis(Long.parseLong(args[1])));
                return "set";
            case "set-new":
                return Words.of(bucket.setIfAbsent(Words.value(args[0])));
            case "cas":
                return Words.of(bucket.compareAndSet(Words.value(args[0]), Words.value(args[1])));
            default:
                return Words.whole(bucket, verb, args);
        }
    }
}
