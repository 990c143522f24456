package bandog.curator;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/** Read-write locks. Both halves of a lock come from one object, so that a writer can become a reader. */
final class ReadWrites {
    private final CuratorFramework curator;
    private final String folder;
    private final Map<String, InterProcessReadWriteLock> locks = new ConcurrentHashMap<>();

    ReadWrites(CuratorFramework curator, String folder) {
        this.curator = curator;
        this.folder = folder;
    }

    Mutexes readers() {
        return new Mutexes(name -> lock(name).readLock());
    }

    Mutexes writers() {
        return new Mutexes(name -> lock(name).writeLock());
    }

    private InterProcessReadWriteLock lock(String name) {
        return locks.computeIfAbsent(name, key -> new InterProcessReadWriteLock(curator, folder + key));
    }
}
