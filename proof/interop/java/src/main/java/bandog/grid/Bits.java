package bandog.grid;

import java.util.HexFormat;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RBitSet;

/** The verbs of RBitSet. */
final class Bits {
    private Bits() {}

    static String obey(RBitSet bits, String verb, String[] args) {
        switch (verb) {
            case "set":
                return Words.of(bits.set(Long.parseLong(args[0]), Boolean.parseBoolean(args[1])));
            case "set-range":
                bits.set(Long.parseLong(args[0]), Long.parseLong(args[1]));
                return "set";
            case "get":
                return Words.of(bits.get(Long.parseLong(args[0])));
            case "count":
                return Words.of(bits.cardinality());
            case "length":
                return Words.of(bits.length());
            case "bytes":
                return HexFormat.of().formatHex(bits.toByteArray());
            case "set-unsigned":
                return Words.of(
                        bits.setUnsigned(Integer.parseInt(args[0]), Long.parseLong(args[1]), Long.parseLong(args[2])));
            case "get-signed":
                return Words.of(bits.getSigned(Integer.parseInt(args[0]), Long.parseLong(args[1])));
            case "storm":
                return storm(bits, args[0], Integer.parseInt(args[1]));
            default:
                return Words.whole(bits, verb, args);
        }
    }

    /** Writes bits. Returns for each the number of times that it has risen minus that it has fallen. */
    private static String storm(RBitSet bits, String millis, int count) {
        long start = System.nanoTime();
        long[] net = new long[count];
        while (Words.before(start, millis)) {
            int bit = ThreadLocalRandom.current().nextInt(count);
            boolean to = ThreadLocalRandom.current().nextInt(3) > 0;
            boolean from = bits.set(bit, to);
            net[bit] += (to ? 1 : 0) - (from ? 1 : 0);
        }
        return Words.of(net);
    }
}
