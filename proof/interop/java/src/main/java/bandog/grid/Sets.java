package bandog.grid;

import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RSet;

/** The verbs of RSet. */
final class Sets {
    private Sets() {}

    static String obey(RSet<Object> set, String verb, String[] args) {
        switch (verb) {
            case "add":
                return Words.of(set.add(Words.value(args[0])));
            case "remove":
                return Words.of(set.remove(Words.value(args[0])));
            case "contains":
                return Words.of(set.contains(Words.value(args[0])));
            case "pop":
                return Words.of(set.removeRandom());
            case "size":
                return Words.of(set.size());
            case "all":
                return Words.of(set.readAll());
            case "storm":
                return storm(set, args[0], Integer.parseInt(args[1]));
            default:
                return Words.whole(set, verb, args);
        }
    }

    /** Adds and removes these members. Returns for each the number of additions minus that of removals. */
    private static String storm(RSet<Object> set, String millis, int members) {
        long start = System.nanoTime();
        long[] net = new long[members];
        while (Words.before(start, millis)) {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            int member = random.nextInt(members);
            switch (random.nextInt(5)) {
                case 0:
                    Object popped = set.removeRandom();
                    if (popped != null) {
                        net[Integer.parseInt(popped.toString().substring(1))]--;
                    }
                    break;
                case 1, 2:
                    net[member] -= set.remove("m" + member) ? 1 : 0;
                    break;
                default:
                    net[member] += set.add("m" + member) ? 1 : 0;
            }
        }
        return Words.of(net);
    }
}
