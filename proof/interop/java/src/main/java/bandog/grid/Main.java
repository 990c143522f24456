package bandog.grid;

import bandog.Kind;
import bandog.Neighbour;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.redisson.Redisson;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.api.options.LocalCachedMapOptions.SyncStrategy;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.TypedJsonJacksonCodec;
import org.redisson.config.Config;

/**
 * The program for the objects of Redisson's data grid. The arguments are the server's URL and lockWatchdogTimeout in ms.
 *
 * <p>The kind of a command is an object, or an object and a codec, such as {@code map kryo5}.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(4);
        RedissonClient redisson = Redisson.create(config);
        Map<String, Kind> kinds = new HashMap<>();
        kinds.put("long", (verb, name, words) -> Numbers.longs(redisson.getAtomicLong(name), verb, words));
        kinds.put("double", (verb, name, words) -> Numbers.doubles(redisson.getAtomicDouble(name), verb, words));
        kinds.put("ids", (verb, name, words) -> Numbers.ids(redisson.getIdGenerator(name), verb, words));
        kinds.put("bits", (verb, name, words) -> Bits.obey(redisson.getBitSet(name), verb, words));
        kinds.put("live", (verb, name, words) -> Lives.obey(redisson.getLiveObjectService(), verb, name, words));
        Codec json = new TypedJsonJacksonCodec(Object.class);
        Map<String, Codec> codecs = Map.of(
                "kryo5", new Kryo5Codec(),
                "text", StringCodec.INSTANCE,
                "typed-json", json,
                "text-json", new CompositeCodec(StringCodec.INSTANCE, json, json));
        codecs.forEach((name, codec) -> addKinds(kinds, redisson, " " + name, codec));
        Neighbour.serve(kinds, Set.of());
    }

    private static void addKinds(Map<String, Kind> kinds, RedissonClient redisson, String suffix, Codec codec) {
        kinds.put("bucket" + suffix, (verb, name, words) -> Buckets.obey(redisson.getBucket(name, codec), verb, words));
        kinds.put("map" + suffix, (verb, name, words) -> Maps.obey(redisson.getMap(name, codec), verb, words));
        Map<String, TimedMaps> timed = new java.util.concurrent.ConcurrentHashMap<>();
        kinds.put("timed" + suffix, (verb, name, words) ->
                // A map has its listeners, so all commands for a name use one. Each test has a name.
                timed.computeIfAbsent(name, each -> new TimedMaps(redisson.getMapCache(each, codec)))
                        .obey(verb, words));
        Map<String, RLocalCachedMap<Object, Object>> locals = new java.util.concurrent.ConcurrentHashMap<>();
        for (SyncStrategy sync : SyncStrategy.values()) {
            kinds.put("local-" + sync.name().toLowerCase(java.util.Locale.ROOT) + suffix, (verb, name, words) ->
                    // A map has its copies, so all commands for a name use one. Each test has a name.
                    LocalMaps.obey(locals.computeIfAbsent(name, each -> redisson.getLocalCachedMap(
                            LocalCachedMapOptions.<Object, Object>name(each).codec(codec).syncStrategy(sync))),
                            verb, words));
        }
        kinds.put("set" + suffix, (verb, name, words) -> Sets.obey(redisson.getSet(name, codec), verb, words));
        kinds.put("list" + suffix, (verb, name, words) -> Lists.obey(redisson.getList(name, codec), verb, words));
        kinds.put("sorted" + suffix, (verb, name, words) ->
                SortedSets.obey(redisson.getScoredSortedSet(name, codec), verb, words));
        kinds.put("setmultimap" + suffix, (verb, name, words) ->
                Multimaps.obey(redisson.getSetMultimap(name, codec), verb, words));
        kinds.put("listmultimap" + suffix, (verb, name, words) ->
                Multimaps.obey(redisson.getListMultimap(name, codec), verb, words));
        kinds.put("setmultimapcache" + suffix, (verb, name, words) ->
                Multimaps.cache(redisson.getSetMultimapCache(name, codec), verb, words));
        kinds.put("listmultimapcache" + suffix, (verb, name, words) ->
                Multimaps.cache(redisson.getListMultimapCache(name, codec), verb, words));
        Map<String, org.redisson.api.RBloomFilter<Object>> filters = new java.util.concurrent.ConcurrentHashMap<>();
        kinds.put("bloom" + suffix, (verb, name, words) ->
                // A filter keeps the sizes that it has read, so all commands for a name use one. Each test has a name.
                Blooms.obey(filters.computeIfAbsent(name, each -> redisson.getBloomFilter(each, codec)), verb, words));
        kinds.put("queue" + suffix, (verb, name, words) ->
                Queues.obey(redisson.getBlockingDeque(name, codec), verb, words));
        kinds.put("stream" + suffix, (verb, name, words) ->
                Streams.obey(redisson.getStream(name, codec), verb, words));
        // The names of the fields are plain texts, as those of RReliableTopic.
        Codec fields = new CompositeCodec(StringCodec.INSTANCE, codec, codec);
        kinds.put("fields" + suffix, (verb, name, words) ->
                Streams.obey(redisson.getStream(name, fields), verb, words));
        Map<String, Reliables> topics = new java.util.concurrent.ConcurrentHashMap<>();
        kinds.put("reliable" + suffix, (verb, name, words) ->
                // A topic has its listeners, so all commands for a name use one. Each test has a name.
                topics.computeIfAbsent(name, each -> new Reliables(redisson.getReliableTopic(each, codec)))
                        .obey(verb, words));
    }
}
