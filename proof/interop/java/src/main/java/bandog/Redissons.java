package bandog;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What the programs of both versions of Redisson share. */
public final class Redissons {
    /** The classes in which threads of Redisson wait for a message: for a lock, and for a latch. */
    public static final Set<String> SLEEPERS =
            Set.of("java.util.concurrent.Semaphore", "org.redisson.misc.ReclosableLatch");

    private Redissons() {}

    /** The configuration for the arguments of the program: the server's URL and lockWatchdogTimeout in ms. */
    public static Config config(String[] args) {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(4);
        return config;
    }

    /** The kinds that every version of Redisson has. */
    public static Map<String, Kind> kinds(RedissonClient redisson) {
        Map<String, Kind> kinds = new HashMap<>();
        kinds.put("none", new Unprotected());
        kinds.put("lock", new Locks(redisson::getLock));
        kinds.put("fair", new Locks(redisson::getFairLock));
        kinds.put("read", new Locks(name -> redisson.getReadWriteLock(name).readLock()));
        kinds.put("write", new Locks(name -> redisson.getReadWriteLock(name).writeLock()));
        return kinds;
    }
}
