package bandog.grid;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RListMultimapCache;
import org.redisson.api.RMultimap;
import org.redisson.api.RMultimapCache;
import org.redisson.api.RSetMultimapCache;

/** The verbs of RSetMultimap, RListMultimap and their Cache forms. */
final class Multimaps {
    private Multimaps() {}

    static String cache(RSetMultimapCache<Object, Object> map, String verb, String[] args) {
        return verb.equals("expire-key") ? expireKey(map, args) : obey(map, verb, args);
    }

    static String cache(RListMultimapCache<Object, Object> map, String verb, String[] args) {
        return verb.equals("expire-key") ? expireKey(map, args) : obey(map, verb, args);
    }

    private static String expireKey(RMultimapCache<Object, Object> map, String[] args) {
        return Words.of(map.expireKey(Words.value(args[0]), Long.parseLong(args[1]), TimeUnit.MILLISECONDS));
    }

    static String obey(RMultimap<Object, Object> map, String verb, String[] args) {
        switch (verb) {
            case "put":
                return Words.of(map.put(Words.value(args[0]), Words.value(args[1])));
            case "remove":
                return Words.of(map.remove(Words.value(args[0]), Words.value(args[1])));
            case "contains":
                return Words.of(map.containsEntry(Words.value(args[0]), Words.value(args[1])));
            case "all":
                return Words.of(map.getAll(Words.value(args[0])));
            case "remove-all":
                return Words.of(map.removeAll(Words.value(args[0])));
            case "keys":
                return Words.of(map.readAllKeySet());
            case "size":
                return Words.of(map.size());
            case "key-size":
                return Words.of(map.keySize());
            case "storm":
                return storm(map, args[0], Integer.parseInt(args[1]));
            default:
                return Words.whole(map, verb, args);
        }
    }

    /** Puts and removes entries. Returns for each key and value the number of additions minus that of removals. */
    private static String storm(RMultimap<Object, Object> map, String millis, int count) {
        long start = System.nanoTime();
        long[] net = new long[count * count];
        while (Words.before(start, millis)) {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            int key = random.nextInt(count);
            int value = random.nextInt(count);
            if (random.nextBoolean()) {
                net[key * count + value] += map.put("k" + key, "v" + value) ? 1 : 0;
            } else {
                net[key * count + value] -= map.remove("k" + key, "v" + value) ? 1 : 0;
            }
        }
        return Words.of(net);
    }
}
