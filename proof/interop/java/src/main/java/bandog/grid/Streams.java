package bandog.grid;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.redisson.api.RStream;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamMessageId;
import org.redisson.api.stream.StreamPendingRangeArgs;
import org.redisson.api.stream.StreamRangeArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.api.stream.StreamTrimArgs;

/** The verbs of RStream. An entry is two words: its id, and the value of its first field. */
final class Streams {
    /** The entry that ends a loop of reads. */
    private static final String END = "end";

    private Streams() {}

    static String obey(RStream<Object, Object> stream, String verb, String[] args) throws Exception {
        switch (verb) {
            case "add":
                return id(stream.add(StreamAddArgs.entry("m", Words.value(args[0]))));
            case "add-fields":
                return id(stream.add(
                        StreamAddArgs.entries("a", Words.value(args[0]), "m", Words.value(args[1]))));
            case "range":
                return entries(stream.range(
                        StreamRangeArgs.startId(StreamMessageId.MIN).endId(StreamMessageId.MAX)));
            case "size":
                return Words.of(stream.size());
            case "trim":
                return Words.of(stream.trim(StreamTrimArgs.maxLen(Integer.parseInt(args[0])).noLimit()));
            case "create-group":
                stream.createGroup(StreamCreateGroupArgs.name(args[0]).id(StreamMessageId.ALL).makeStream());
                return "created";
            case "remove-group":
                stream.removeGroup(args[0]);
                return "removed";
            case "read-group":
                return entries(stream.readGroup(args[0], args[1], read(args[2])));
            case "ack":
                return Words.of(stream.ack(args[0], id(args[1])));
            case "pending":
                return stream
                        .listPending(StreamPendingRangeArgs.groupName(args[0])
                                .startId(StreamMessageId.MIN)
                                .endId(StreamMessageId.MAX)
                                .count(100))
                        .stream()
                        .map(each -> id(each.getId()) + "\t" + each.getConsumerName())
                        .collect(Collectors.joining("\t"));
            case "claim":
                return entries(stream.claim(args[0], args[1], 0, TimeUnit.MILLISECONDS, id(args[2])));
            case "auto-claim":
                return entries(stream.autoClaim(
                                args[0],
                                args[1],
                                Long.parseLong(args[2]),
                                TimeUnit.MILLISECONDS,
                                StreamMessageId.MIN,
                                100)
                        .getMessages());
            case "storm":
                return storm(stream, args[0], args[1]);
            case "read-until-end":
                return read(stream, args[0], args[1]);
            default:
                return Words.whole(stream, verb, args);
        }
    }

    private static StreamReadGroupArgs read(String count) {
        return StreamReadGroupArgs.neverDelivered().count(Integer.parseInt(count));
    }

    private static String id(StreamMessageId id) {
        return id.getId0() + "-" + id.getId1();
    }

    private static StreamMessageId id(String word) {
        String[] parts = word.split("-");
        return new StreamMessageId(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
    }

    private static Object first(Map<Object, Object> fields) {
        return fields.values().iterator().next();
    }

    private static String entries(Map<StreamMessageId, Map<Object, Object>> entries) {
        return entries.entrySet().stream()
                .map(each -> id(each.getKey()) + "\t" + Words.of(first(each.getValue())))
                .collect(Collectors.joining("\t"));
    }

    /** Adds entries for this number of ms, and returns their number. */
    private static String storm(RStream<Object, Object> stream, String millis, String prefix) throws Exception {
        long start = System.nanoTime();
        int added = 0;
        for (; Words.before(start, millis); added++) {
            stream.add(StreamAddArgs.entry("m", prefix + added));
            Thread.sleep(1); // The groups are slower.
        }
        return String.valueOf(added);
    }

    /** Reads and acknowledges entries until the last one. Writes them into the file. */
    private static String read(RStream<Object, Object> stream, String group, String path) throws Exception {
        List<Object> found = new ArrayList<>();
        StreamReadGroupArgs args = StreamReadGroupArgs.neverDelivered().count(50).timeout(Duration.ofSeconds(1));
        while (true) {
            Map<StreamMessageId, Map<Object, Object>> page = stream.readGroup(group, "java", args);
            if (page == null || page.isEmpty()) {
                continue;
            }
            stream.ack(group, page.keySet().toArray(new StreamMessageId[0]));
            for (Map<Object, Object> fields : page.values()) {
                if (first(fields).equals(END)) {
                    return Words.file(path, found);
                }
                found.add(first(fields));
            }
        }
    }
}
