package bandog.codecs;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RedissonClient;
import org.redisson.api.map.event.EntryUpdatedListener;
import org.redisson.cache.LocalCachedMapClear;
import org.redisson.cache.LocalCachedMapInvalidate;
import org.redisson.cache.LocalCachedMapUpdate;
import org.redisson.cache.LocalCachedMessageCodec;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

/** The binary layouts around values. */
final class Packs {
    private Packs() {}

    static void print(String url) throws Exception {
        localCache();
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress(url);
        RedissonClient redisson = Redisson.create(config);
        mapCache(redisson);
        delayedQueue(redisson);
        atomicDouble(redisson);
        redisson.shutdown();
    }

    private static void localCache() throws Exception {
        Codec codec = LocalCachedMessageCodec.INSTANCE;
        byte[] sender = bytes(16, 0x10);
        byte[] other = bytes(16, 0x20);
        Golden.section("messages of RLocalCachedMap: sender 1011..., request and first hash 2021..., second hash 3031...");
        Golden.encoded(codec, "clear", new LocalCachedMapClear(sender, other, false));
        Golden.encoded(codec, "clear and release", new LocalCachedMapClear(sender, other, true));
        Golden.encoded(codec, "invalidate none", new LocalCachedMapInvalidate(sender));
        Golden.encoded(codec, "invalidate one", new LocalCachedMapInvalidate(sender, other));
        Golden.encoded(codec, "invalidate two", new LocalCachedMapInvalidate(sender, other, bytes(16, 0x30)));
        LocalCachedMapUpdate.Entry entry = new LocalCachedMapUpdate.Entry("k1".getBytes(), "v1".getBytes());
        LocalCachedMapUpdate.Entry empty = new LocalCachedMapUpdate.Entry(new byte[0], new byte[0]);
        Golden.encoded(codec, "update k1 v1", new LocalCachedMapUpdate(sender, List.of(entry)));
        Golden.encoded(codec, "update k1 v1, empty", new LocalCachedMapUpdate(sender, List.of(entry, empty)));
    }

    private static void mapCache(RedissonClient redisson) throws Exception {
        Golden.section("values and messages of RMapCache");
        BlockingQueue<byte[]> messages = new ArrayBlockingQueue<>(10);
        for (String verb : List.of("created", "updated", "removed", "expired")) {
            redisson.getTopic("redisson_map_cache_" + verb + ":{cache}", ByteArrayCodec.INSTANCE)
                    .addListener(byte[].class, (channel, message) -> messages.add(message));
        }
        RMapCache<String, String> cache = redisson.getMapCache("cache");
        Codec bytes = new CompositeCodec(StringCodec.INSTANCE, ByteArrayCodec.INSTANCE, ByteArrayCodec.INSTANCE);
        RMap<String, byte[]> raw = redisson.getMap("cache", bytes);
        cache.addListener((EntryUpdatedListener<String, String>) event -> {});
        cache.put("k1", "v1");
        Golden.line("value v1", raw.get("k1"));
        Golden.line("created k1 v1", messages.poll(10, TimeUnit.SECONDS));
        cache.put("k1", "v22", 1, TimeUnit.HOURS, 1, TimeUnit.MINUTES);
        Golden.line("value v22, idle 60000 ms", raw.get("k1"));
        Golden.line("updated k1 v22 v1", messages.poll(10, TimeUnit.SECONDS));
        cache.remove("k1");
        Golden.line("removed k1 v22", messages.poll(10, TimeUnit.SECONDS));
        cache.put("k2", "", 1, TimeUnit.HOURS);
        Golden.line("value empty", raw.get("k2"));
        Golden.line("created k2 empty", messages.poll(10, TimeUnit.SECONDS));
        cache.destroy();
    }

    @SuppressWarnings("deprecation")
    private static void delayedQueue(RedissonClient redisson) {
        Golden.section("items of RDelayedQueue, their random bytes as zeros");
        RDelayedQueue<String> queue = redisson.getDelayedQueue(redisson.getQueue("queue"));
        for (String value : List.of("v1", "")) {
            queue.offer(value, 1, TimeUnit.HOURS);
            byte[] item = redisson.<byte[]>getList("redisson_delay_queue:{queue}", ByteArrayCodec.INSTANCE).remove(0);
            Arrays.fill(item, 1, 9, (byte) 0);
            Golden.line("item " + Golden.quoted(value), item);
        }
        queue.destroy();
    }

    private static void atomicDouble(RedissonClient redisson) {
        Golden.section("texts of RAtomicDouble after set, and after addAndGet of 0.25");
        for (double value : new double[] {0, 1, -0.0, 1e10, 1e-7, 0.1, 1e15, 123.456}) {
            redisson.getAtomicDouble("number").set(value);
            String set = redisson.<String>getBucket("number").get();
            redisson.getAtomicDouble("number").addAndGet(0.25);
            Golden.line(Samples.label(value), set + " " + redisson.<String>getBucket("number").get());
        }
    }

    private static byte[] bytes(int count, int first) {
        byte[] bytes = new byte[count];
        for (int at = 0; at < count; at++) {
            bytes[at] = (byte) (first + at);
        }
        return bytes;
    }
}
