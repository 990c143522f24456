package bandog.codecs;

import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.config.Config;

/**
 * Publishes each message of {@code in:KIND:CODEC} on {@code out:KIND:CODEC}. The argument is the URL of the server. It prints
 * a line when it has subscribed, and runs until its input ends.
 */
public final class Topics {
    private Topics() {}

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]);
        RedissonClient redisson = Redisson.create(config);
        Map<String, Codec> codecs = Map.of("text", new StringCodec(), "kryo5", new Kryo5Codec());
        for (Map.Entry<String, Codec> entry : codecs.entrySet()) {
            String name = entry.getKey();
            Codec codec = entry.getValue();
            echo(redisson.getTopic("in:plain:" + name, codec), redisson.getTopic("out:plain:" + name, codec));
            RTopic out = redisson.getShardedTopic("out:sharded:" + name, codec);
            echo(redisson.getShardedTopic("in:sharded:" + name, codec), out);
            redisson.getPatternTopic("in:pattern:*:" + name, codec).addListener(Object.class, (pattern, in, message) ->
                redisson.getTopic(in.toString().replace("in:", "out:"), codec).publish(message));
        }
        System.out.println("subscribed");
        while (System.in.read() >= 0) {
            // The input has no meaning.
        }
        redisson.shutdown();
    }

    private static void echo(RTopic from, RTopic to) {
        from.addListener(Object.class, (channel, message) -> to.publish(message));
    }
}
