package bandog.grid;

import java.util.List;
import java.util.stream.IntStream;
import org.redisson.api.RBloomFilter;

/** The verbs of RBloomFilter. */
final class Blooms {
    /** The number of items of one call. */
    private static final int BATCH = 1000;

    private Blooms() {}

    static String obey(RBloomFilter<Object> filter, String verb, String[] args) {
        switch (verb) {
            case "init":
                return Words.of(filter.tryInit(Long.parseLong(args[0]), Double.parseDouble(args[1])));
            case "add":
                return Words.of(filter.add(Words.value(args[0])));
            case "contains":
                return Words.of(filter.contains(Words.value(args[0])));
            case "count":
                return Words.of(filter.count());
            case "sizes":
                return filter.getSize() + "\t" + filter.getHashIterations() + "\t" + filter.getExpectedInsertions()
                        + "\t" + filter.getFalseProbability();
            case "add-many":
                return Words.of(batches(args).mapToLong(filter::add).sum());
            case "contains-many":
                return Words.of(batches(args).mapToLong(filter::contains).sum());
            default:
                return Words.whole(filter, verb, args);
        }
    }

    /** Items with this prefix, as many as the second argument says. */
    private static java.util.stream.Stream<List<Object>> batches(String[] args) {
        int batches = Integer.parseInt(args[1]) / BATCH;
        return IntStream.range(0, batches).mapToObj(batch -> IntStream.range(batch * BATCH, (batch + 1) * BATCH)
                .<Object>mapToObj(number -> args[0] + number)
                .toList());
    }
}
