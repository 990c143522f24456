package bandog.redisson4;

import bandog.Kind;
import bandog.Neighbour;
import bandog.Redissons;
import java.io.IOException;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/** The program for Redisson 4.7.0. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        RedissonClient redisson = Redisson.create(Redissons.config(args));
        Map<String, Kind> kinds = Redissons.kinds(redisson);
        kinds.put("fenced", new FencedLocks(redisson));
        kinds.put("semaphore", new Semaphores(redisson));
        kinds.put("leased", new LeasedSemaphores(redisson));
        kinds.put("latch", new Latches(redisson));
        Neighbour.serve(kinds, Redissons.SLEEPERS);
    }
}
