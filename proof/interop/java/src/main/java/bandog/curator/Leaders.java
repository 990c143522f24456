package bandog.curator;

import bandog.Counter;
import bandog.Kind;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;

/** The verbs of LeaderLatch. Each thread is a candidate of its own, because a latch can be used once. */
final class Leaders implements Kind {
    private final CuratorFramework curator;
    private final String folder;
    private final ThreadLocal<Map<String, LeaderLatch>> leads = ThreadLocal.withInitial(HashMap::new);

    Leaders(CuratorFramework curator, String folder) {
        this.curator = curator;
        this.folder = folder;
    }

    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        switch (verb) {
            case "lock":
                leads.get().put(name, lead(name));
                return "held";
            case "try-for":
                LeaderLatch candidate = candidate(name);
                if (!candidate.await(Long.parseLong(args[0]), TimeUnit.MILLISECONDS)) {
                    candidate.close();
                    return "busy";
                }
                leads.get().put(name, candidate);
                return "held";
            case "unlock":
                leads.get().remove(name).close();
                return "freed";
            case "leader":
                return new LeaderLatch(curator, folder + name).getLeader().getId();
            case "count":
                return Counter.count(args[0], Integer.parseInt(args[1]), turn -> {
                    LeaderLatch latch = lead(name);
                    try {
                        turn.run(0);
                    } finally {
                        latch.close();
                    }
                });
            default:
                throw Kind.unknown(verb);
        }
    }

    private LeaderLatch candidate(String name) throws IOException {
        LeaderLatch latch = new LeaderLatch(curator, folder + name, Thread.currentThread().getName());
        try {
            latch.start();
        } catch (Exception e) {
            throw new IOException(e);
        }
        return latch;
    }

    private LeaderLatch lead(String name) throws IOException {
        LeaderLatch latch = candidate(name);
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        return latch;
    }
}
