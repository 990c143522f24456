package bandog.grid;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RAtomicDouble;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RIdGenerator;

/** The verbs of RAtomicLong, RAtomicDouble and RIdGenerator. */
final class Numbers {
    private Numbers() {}

    static String longs(RAtomicLong number, String verb, String[] args) {
        switch (verb) {
            case "get":
                return Words.of(number.get());
            case "set":
                number.set(Long.parseLong(args[0]));
                return "set";
            case "add":
                return Words.of(number.addAndGet(Long.parseLong(args[0])));
            case "cas":
                return Words.of(number.compareAndSet(Long.parseLong(args[0]), Long.parseLong(args[1])));
            case "storm":
                return Words.of(stormOfLongs(number, args[0]));
            default:
                return Words.whole(number, verb, args);
        }
    }

    /** Adds for this number of ms, and returns the sum. */
    private static long stormOfLongs(RAtomicLong number, String millis) {
        long start = System.nanoTime();
        long sum = 0;
        while (Words.before(start, millis)) {
            long by = ThreadLocalRandom.current().nextLong(1, 10);
            if (by < 4) {
                long before = number.get();
                sum += number.compareAndSet(before, before + by) ? by : 0;
            } else {
                number.addAndGet(by);
                sum += by;
            }
        }
        return sum;
    }

    static String doubles(RAtomicDouble number, String verb, String[] args) {
        switch (verb) {
            case "get":
                return Words.of(number.get());
            case "set":
                number.set(Double.parseDouble(args[0]));
                return "set";
            case "add":
                return Words.of(number.addAndGet(Double.parseDouble(args[0])));
            case "cas":
                return Words.of(number.compareAndSet(Double.parseDouble(args[0]), Double.parseDouble(args[1])));
            case "storm":
                return Words.of(stormOfDoubles(number, args[0]));
            default:
                return Words.whole(number, verb, args);
        }
    }

    /** Adds multiples of a quarter, whose sums are exact. */
    private static double stormOfDoubles(RAtomicDouble number, String millis) {
        long start = System.nanoTime();
        double sum = 0;
        while (Words.before(start, millis)) {
            double by = ThreadLocalRandom.current().nextInt(1, 10) / 4.0;
            if (by < 1) {
                double before = number.get();
                sum += number.compareAndSet(before, before + by) ? by : 0;
            } else {
                number.addAndGet(by);
                sum += by;
            }
        }
        return sum;
    }

    static String ids(RIdGenerator ids, String verb, String[] args) throws Exception {
        switch (verb) {
            case "init":
                return Words.of(ids.tryInit(Long.parseLong(args[0]), Long.parseLong(args[1])));
            case "next":
                return Words.of(ids.nextId());
            case "storm":
                long start = System.nanoTime();
                List<Long> all = new ArrayList<>();
                while (Words.before(start, args[0])) {
                    all.add(ids.nextId());
                }
                return Words.file(args[1], all);
            default:
                return Words.whole(ids, verb, args);
        }
    }
}
