package bandog.grid;

import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import org.redisson.api.RScoredSortedSet;
import org.redisson.client.protocol.ScoredEntry;

/** The verbs of RScoredSortedSet. */
final class SortedSets {
    private SortedSets() {}

    static String obey(RScoredSortedSet<Object> set, String verb, String[] args) {
        switch (verb) {
            case "add":
                return Words.of(set.add(Double.parseDouble(args[0]), Words.value(args[1])));
            case "add-score":
                return Words.of(set.addScore(Words.value(args[0]), Double.parseDouble(args[1])));
            case "score":
                return Words.of(set.getScore(Words.value(args[0])));
            case "rank":
                return Words.of(set.rank(Words.value(args[0])));
            case "poll-first":
                return Words.of(set.pollFirst());
            case "all":
                return Words.of(set.entryRange(0, -1).stream()
                        .flatMap(entry -> Stream.of(entry.getValue(), entry.getScore()))
                        .toList());
            case "storm":
                return storm(set, args[0], Integer.parseInt(args[1]));
            default:
                return Words.whole(set, verb, args);
        }
    }

    /** Adds to scores, and polls. Returns for each member the sum of its additions minus its polled scores. */
    private static String storm(RScoredSortedSet<Object> set, String millis, int members) {
        long start = System.nanoTime();
        long[] net = new long[members];
        while (Words.before(start, millis)) {
            int member = ThreadLocalRandom.current().nextInt(members);
            int by = ThreadLocalRandom.current().nextInt(1, 10);
            if (by > 1) {
                set.addScore("m" + member, by);
                net[member] += by;
                continue;
            }
            ScoredEntry<Object> polled = set.pollFirstEntry();
            if (polled != null) {
                net[Integer.parseInt(polled.getValue().toString().substring(1))] -= polled.getScore().longValue();
            }
        }
        return Words.of(net);
    }
}
