package bandog.codecs;

import io.netty.buffer.Unpooled;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.objenesis.ObjenesisStd;
import org.redisson.RedissonBloomFilter;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.TypedJsonJacksonCodec;
import org.redisson.misc.Hash;

/** HighwayHash-128, the names of entries, and Bloom filters. */
final class Hashes {
    private Hashes() {}

    static void print() throws Exception {
        Golden.section("h128 of the bytes 0, 1, 2, ...");
        for (int length = 0; length < 70; length++) {
            byte[] bytes = new byte[length];
            for (int at = 0; at < length; at++) {
                bytes[at] = (byte) at;
            }
            Golden.line("h128 " + length, Hash.hash128toArray(Unpooled.wrappedBuffer(bytes)));
        }
        Golden.section("names of entries");
        name(new Kryo5Codec(), "Kryo5 k1", "k1");
        name(new StringCodec(), "Text k1", "k1");
        name(new TypedJsonJacksonCodec(String.class), "TypedJson k1", "k1");
        name(new LongCodec(), "Int 1", 1L);
        name(new StringCodec(), "Text ", "");
        Golden.section("sizes of Bloom filters: expected insertions, false probability => size, iterations, its text");
        Method bits = method("optimalNumOfBits", long.class, double.class);
        Method functions = method("optimalNumOfHashFunctions", long.class, long.class);
        Object filter = new ObjenesisStd().newInstance(RedissonBloomFilter.class);
        long[] insertions = {
            1, 2, 3, 7, 10, 99, 100, 1000, 4096, 12345, 1_000_000, 55_000_000, 123_456_789, 10_000_000_000L,
        };
        double[] probabilities = {0.0, 1e-9, 1e-5, 3e-4, 0.001, 0.01, 0.03, 0.05, 0.1, 1.0 / 3, 0.5, 0.9, 0.999, 1.0};
        for (long expected : insertions) {
            for (double probability : probabilities) {
                long size = (long) bits.invoke(filter, expected, probability);
                String sizes = size == 0 || size > Integer.MAX_VALUE * 2L
                        ? "refused"
                        : size + " " + functions.invoke(filter, expected, size) + " " + probability;
                Golden.line("bloom " + expected + " " + probability, sizes);
            }
        }
        Golden.section("bits of Bloom filters: element in hex, size, iterations");
        Method indexes = method("hash", long.class, long.class, int.class, long.class);
        for (byte[] element : List.of(
                new byte[] {3, 0x76, (byte) 0xb1}, new byte[] {3, 0x76, (byte) 0xb2}, new byte[] {3, 0x76, (byte) 0xb3},
                "key1".getBytes(StandardCharsets.UTF_8), new byte[0], new byte[100])) {
            long[] hash = Hash.hash128(Unpooled.wrappedBuffer(element));
            for (long[] sizes : new long[][] {{7298, 5}, {928592456, 12}, {239, 17}, {1, 1}, {4294967294L, 30}}) {
                long[] found = (long[]) indexes.invoke(filter, hash[0], hash[1], (int) sizes[1], sizes[0]);
                Golden.line(
                        "bits " + Golden.hex(element) + " " + sizes[0] + " " + sizes[1],
                        Arrays.stream(found).mapToObj(Long::toString).collect(Collectors.joining(" ")));
            }
        }
    }

    private static void name(Codec codec, String label, Object key) throws Exception {
        Golden.line("name " + label, Hash.hash128toBase64(Unpooled.wrappedBuffer(Golden.bytes(codec, key))));
    }

    private static Method method(String name, Class<?>... types) throws Exception {
        Method method = RedissonBloomFilter.class.getDeclaredMethod(name, types);
        method.setAccessible(true);
        return method;
    }
}
