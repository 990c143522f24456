package bandog.grid;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBlockingDeque;

/** The verbs of RBlockingQueue and RBlockingDeque. */
final class Queues {
    /** The element that ends a loop of takes. */
    private static final String END = "end";

    private Queues() {}

    static String obey(RBlockingDeque<Object> queue, String verb, String[] args) throws Exception {
        switch (verb) {
            case "offer":
                return Words.of(queue.offer(Words.value(args[0])));
            case "offer-first":
                return Words.of(queue.offerFirst(Words.value(args[0])));
            case "poll":
                return Words.of(queue.poll());
            case "poll-last":
                return Words.of(queue.pollLast());
            case "poll-for":
                return Words.of(queue.poll(Long.parseLong(args[0]), TimeUnit.MILLISECONDS));
            case "size":
                return Words.of(queue.size());
            case "all":
                return Words.of(queue.readAll());
            case "produce":
                return produce(queue, args[0], args[1]);
            case "take-until-end":
                return take(queue, args[0]);
            case "poll-for-long":
                return poll(queue, args[0], args[1]);
            default:
                return Words.whole(queue, verb, args);
        }
    }

    /** Offers elements for this number of ms, and returns their number. */
    private static String produce(RBlockingDeque<Object> queue, String millis, String prefix) throws Exception {
        long start = System.nanoTime();
        int offered = 0;
        for (; Words.before(start, millis); offered++) {
            queue.offer(prefix + offered);
            if (queue.size() > 2000) {
                Thread.sleep(2);
            }
        }
        return String.valueOf(offered);
    }

    /** Takes elements until the last one, from the end and from the start. Writes them into the file. */
    private static String take(RBlockingDeque<Object> queue, String path) throws Exception {
        List<Object> taken = new ArrayList<>();
        while (true) {
            Object element = taken.size() % 5 == 0 ? queue.takeLast() : queue.take();
            if (element.equals(END)) {
                return Words.file(path, taken);
            }
            taken.add(element);
        }
    }

    /** Polls for this number of ms, and then until the queue is empty. Writes the elements into the file. */
    private static String poll(RBlockingDeque<Object> queue, String millis, String path) throws Exception {
        long start = System.nanoTime();
        List<Object> polled = new ArrayList<>();
        while (true) {
            Object element = polled.size() % 2 == 0 ? queue.poll() : queue.poll(1, TimeUnit.SECONDS);
            if (element != null) {
                polled.add(element);
            } else if (!Words.before(start, millis)) {
                return Words.file(path, polled);
            }
        }
    }
}
