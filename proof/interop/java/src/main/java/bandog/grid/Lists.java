package bandog.grid;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RList;

/** The verbs of RList. */
final class Lists {
    private Lists() {}

    static String obey(RList<Object> list, String verb, String[] args) throws Exception {
        switch (verb) {
            case "add":
                return Words.of(list.add(Words.value(args[0])));
            case "get":
                return Words.of(list.get(Integer.parseInt(args[0])));
            case "set":
                return Words.of(list.set(Integer.parseInt(args[0]), Words.value(args[1])));
            case "insert":
                list.add(Integer.parseInt(args[0]), Words.value(args[1]));
                return "inserted";
            case "remove-at":
                return Words.of(list.remove(Integer.parseInt(args[0])));
            case "remove":
                return Words.of(list.remove(Words.value(args[0])));
            case "index":
                return Words.of(list.indexOf(Words.value(args[0])));
            case "all":
                return Words.of(list.readAll());
            case "storm":
                return storm(list, args[0], args[1], args[2]);
            default:
                return Words.whole(list, verb, args);
        }
    }

    /** Adds elements, and removes some from anywhere, which are written into the file. Returns the number of additions. */
    private static String storm(RList<Object> list, String millis, String prefix, String path) throws Exception {
        long start = System.nanoTime();
        int added = 0;
        List<Object> removed = new ArrayList<>();
        while (Words.before(start, millis)) {
            if (ThreadLocalRandom.current().nextInt(3) > 0) {
                list.add(prefix + added++);
                continue;
            }
            int index = ThreadLocalRandom.current().nextInt(3);
            Object element = list.size() > 20 ? list.remove(index) : null;
            if (element != null) {
                removed.add(element);
            }
        }
        Words.file(path, removed);
        return String.valueOf(added);
    }
}
