package bandog.grid;

import bandog.Counter;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import org.redisson.api.RLock;
import org.redisson.api.RMap;

/** The verbs of RMap. */
final class Maps {
    private Maps() {}

    static String obey(RMap<Object, Object> map, String verb, String[] args) throws Exception {
        Object key = args.length == 0 || verb.equals("storm") || verb.equals("expire") ? null : Words.value(args[0]);
        switch (verb) {
            case "get":
                return Words.of(map.get(key));
            case "put":
                return Words.of(map.put(key, Words.value(args[1])));
            case "replace":
                return Words.of(map.replace(key, Words.value(args[1]), Words.value(args[2])));
            case "remove":
                return Words.of(map.remove(key));
            case "add":
                return Words.of(map.addAndGet(key, (Number) Words.value(args[1])));
            case "all":
                return Words.of(map.readAllMap().entrySet().stream()
                        .flatMap(entry -> Stream.of(entry.getKey(), entry.getValue()))
                        .toList());
            case "lock":
                return Words.of(map.getLock(key).tryLock());
            case "unlock":
                map.getLock(key).unlock();
                return "freed";
            case "count":
                return Counter.count(args[1], Integer.parseInt(args[2]), turn -> {
                    RLock lock = map.getLock(key);
                    lock.lock();
                    try {
                        turn.run(0);
                    } finally {
                        lock.unlock();
                    }
                });
            case "storm":
                return storm(map, args[0], args[1]);
            default:
                return Words.whole(map, verb, args);
        }
    }

    /** Adds one to the values of four keys. Returns the number of additions. The type is a letter, or + for addAndGet. */
    private static String storm(RMap<Object, Object> map, String millis, String type) {
        long start = System.nanoTime();
        long sum = 0;
        while (Words.before(start, millis)) {
            String key = "k" + ThreadLocalRandom.current().nextInt(4);
            if (type.equals("+")) {
                map.addAndGet(key, 1L);
                sum++;
                continue;
            }
            Object old = map.get(key);
            Object next = Words.value(type + (old == null ? 1 : Long.parseLong(Objects.toString(old)) + 1));
            boolean isWritten = old == null ? map.putIfAbsent(key, next) == null : map.replace(key, old, next);
            sum += isWritten ? 1 : 0;
        }
        return Words.of(List.of(sum));
    }
}
