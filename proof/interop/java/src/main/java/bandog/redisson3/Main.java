package bandog.redisson3;

import bandog.Neighbour;
import bandog.Redissons;
import java.io.IOException;
import org.redisson.Redisson;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** The program for Redisson 3.10.6. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        Config config = Redissons.config(args);
        // The default codec of this version does not work with this Java. Locks do not use the codec.
        config.setCodec(StringCodec.INSTANCE);
        Neighbour.serve(Redissons.kinds(Redisson.create(config)), Redissons.SLEEPERS);
    }
}
