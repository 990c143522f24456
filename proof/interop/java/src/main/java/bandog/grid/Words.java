package bandog.grid;

import bandog.Kind;
import bandog.codecs.Address;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.redisson.api.RExpirable;

/** Values as words of commands and answers: the first letter is the type. Several words are separated by tabs. */
final class Words {
    private Words() {}

    static Object value(String word) {
        String text = word.substring(1);
        switch (word.charAt(0)) {
            case 's':
                return text;
            case 'i':
                return Integer.valueOf(text);
            case 'l':
                return Long.valueOf(text);
            case 'd':
                return Double.valueOf(text);
            case 'b':
                return Boolean.valueOf(text);
            case 'a':
                String[] parts = text.split(",", 2);
                return Address.of(parts[0].isEmpty() ? null : parts[0], Integer.parseInt(parts[1]));
            default:
                throw new IllegalArgumentException("unknown type of " + word);
        }
    }

    static String of(Object value) {
        if (value == null) {
            return "null";
        }
        String type = value.getClass().getSimpleName().substring(0, 1).toLowerCase(java.util.Locale.ROOT);
        return type + value;
    }

    static String of(Collection<?> values) {
        return values.stream().map(Words::of).collect(Collectors.joining("\t"));
    }

    static String of(long[] numbers) {
        return LongStream.of(numbers).mapToObj(Long::toString).collect(Collectors.joining("\t"));
    }

    /** Writes a line for each of these. Returns their number. */
    static String file(String path, List<?> values) throws java.io.IOException {
        // Without a copy, because the heap is small.
        Iterable<String> lines = () -> values.stream().map(Object::toString).iterator();
        Files.write(Path.of(path), lines);
        return String.valueOf(values.size());
    }

    /** The end of a loop that takes this number of ms. */
    static boolean before(long start, String millis) {
        return System.nanoTime() - start < TimeUnit.MILLISECONDS.toNanos(Long.parseLong(millis));
    }

    /** The verbs that all objects have. */
    static String whole(RExpirable object, String verb, String[] args) {
        switch (verb) {
            case "exists":
                return of(object.isExists());
            case "delete":
                return of(object.delete());
            case "expire":
                return of(object.expire(java.time.Duration.ofMillis(Long.parseLong(args[0]))));
            case "persist":
                return of(object.clearExpire());
            case "ttl":
                return of(object.remainTimeToLive());
            default:
                throw Kind.unknown(verb + " " + Arrays.toString(args));
        }
    }
}
