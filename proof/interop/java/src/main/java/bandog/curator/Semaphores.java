package bandog.curator;

import bandog.Kind;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** The verbs of InterProcessSemaphoreV2. The first argument is a number of permits, the second one the limit. */
final class Semaphores implements Kind {
    /** Time for which permits are held in a crowd, so that the holders overlap. */
    private static final long HELD_NANOS = 1_000_000;

    private final CuratorFramework curator;
    private final String folder;
    /** The permits that each name has, in the order in which they were taken. */
    private final Map<String, Deque<Collection<Lease>>> held = new ConcurrentHashMap<>();

    Semaphores(CuratorFramework curator, String folder) {
        this.curator = curator;
        this.folder = folder;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        if (verb.equals("unlock")) {
            held.get(name).pop().forEach(Semaphores::close);
            return "freed";
        }
        int take = Integer.parseInt(args[0]);
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(curator, folder + name, Integer.parseInt(args[1]));
        switch (verb) {
            case "lock":
                return keep(name, semaphore.acquire(take));
            case "try":
                return keep(name, semaphore.acquire(take, 0, TimeUnit.MILLISECONDS));
            case "try-for":
                return keep(name, semaphore.acquire(take, Long.parseLong(args[2]), TimeUnit.MILLISECONDS));
            case "crowd":
                return crowd(semaphore, take, Path.of(args[2]), Integer.parseInt(args[3]));
            default:
                throw Kind.unknown(verb);
        }
    }

    private String keep(String name, Collection<Lease> leases) {
        if (leases == null) {
            return "busy";
        }
        held.computeIfAbsent(name, key -> new ArrayDeque<>()).push(leases);
        return "held";
    }

    /** Takes permits repeatedly. While they are held, the file has one more plus than minus for each permit. */
    private static String crowd(InterProcessSemaphoreV2 semaphore, int take, Path path, int times) throws Exception {
        try (OutputStream file = Files.newOutputStream(path, StandardOpenOption.APPEND)) {
            for (int i = 0; i < times; i++) {
                Collection<Lease> leases = semaphore.acquire(take);
                file.write("+".repeat(take).getBytes());
                LockSupport.parkNanos(HELD_NANOS);
                file.write("-".repeat(take).getBytes());
                leases.forEach(Semaphores::close);
            }
        }
        return String.valueOf(times);
    }

    private static void close(Lease lease) {
        try {
            lease.close();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
