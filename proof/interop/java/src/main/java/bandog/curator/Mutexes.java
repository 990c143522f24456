package bandog.curator;

import bandog.Counter;
import bandog.Kind;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** The verbs of InterProcessMutex, which both halves of a read-write lock are, too. All threads share one object. */
final class Mutexes implements Kind {
    private final Function<String, InterProcessMutex> create;
    private final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();

    Mutexes(Function<String, InterProcessMutex> create) {
        this.create = create;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        InterProcessMutex mutex = mutexes.computeIfAbsent(name, create);
        switch (verb) {
            case "lock":
                mutex.acquire();
                return "held";
            case "try":
                return mutex.acquire(0, TimeUnit.MILLISECONDS) ? "held" : "busy";
            case "try-for":
                return mutex.acquire(Long.parseLong(args[0]), TimeUnit.MILLISECONDS) ? "held" : "busy";
            case "unlock":
                mutex.release();
                return "freed";
            case "believes":
                return mutex.isOwnedByCurrentThread() ? "held" : "free";
            case "participants":
                return String.join(" ", mutex.getParticipantNodes());
            case "count":
                return Counter.count(args[0], Integer.parseInt(args[1]), under(mutex));
            case "check":
                return Counter.check(args[0], Integer.parseInt(args[1]), under(mutex));
            default:
                throw Kind.unknown(verb);
        }
    }

    private static Counter.Protection under(InterProcessMutex mutex) {
        return turn -> {
            try {
                mutex.acquire();
                try {
                    turn.run(0);
                } finally {
                    mutex.release();
                }
            } catch (IOException | RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IOException(e);
            }
        };
    }
}
