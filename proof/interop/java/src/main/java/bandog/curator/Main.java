package bandog.curator;

import bandog.Kind;
import bandog.Neighbour;
import bandog.Unprotected;
import java.io.IOException;
import java.net.URI;
import java.util.Map;
import java.util.Set;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** The program for Curator 5.9.0. Its arguments are a URL as bandog has it, and the duration of the session in ms. */
public final class Main {
    /** Delay before a request is repeated after the connection was lost, in ms. */
    private static final int RETRY_MILLIS = 100;

    private Main() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        URI url = URI.create(args[0]);
        int session = Integer.parseInt(args[1]);
        CuratorFramework curator = CuratorFrameworkFactory.builder()
                .connectString(url.getAuthority())
                .sessionTimeoutMs(session)
                .connectionTimeoutMs(session)
                .retryPolicy(new RetryForever(RETRY_MILLIS))
                .build();
        curator.start();
        curator.blockUntilConnected();
        String folder = url.getPath() + "/";
        ReadWrites readWrites = new ReadWrites(curator, folder);
        Neighbour.serve(
                Map.of(
                        "none", new Unprotected(),
                        "lock", new Mutexes(name -> new InterProcessMutex(curator, folder + name)),
                        "read", readWrites.readers(),
                        "write", readWrites.writers(),
                        "permits", new Semaphores(curator, folder),
                        "leader", new Leaders(curator, folder)),
                Set.of("java.lang.Object"));
    }
}
