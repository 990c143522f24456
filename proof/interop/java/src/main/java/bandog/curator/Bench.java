package bandog.curator;

import bandog.Measurements;
import bandog.Measurements.Lock;
import java.net.URI;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator 5.9.0 for bandog's benchmark. The argument is a URL as bandog has it. */
public final class Bench {
    /** The session of bandog's default. */
    private static final int SESSION_MILLIS = 10_000;

    private Bench() {}

    public static void main(String[] args) throws Exception {
        URI url = URI.create(args[0]);
        Measurements.serve(client(url), client(url), client(url));
    }

    private static Measurements.Client client(URI url) throws InterruptedException {
        CuratorFramework curator = CuratorFrameworkFactory.builder()
                .connectString(url.getAuthority())
                .sessionTimeoutMs(SESSION_MILLIS)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        curator.start();
        curator.blockUntilConnected();
        return (kind, name, permits) -> lock(curator, kind, url.getPath() + "/" + name, permits);
    }

    private static Lock<?> lock(CuratorFramework curator, String kind, String path, int permits) {
        switch (kind) {
            case "mutex":
                return plain(new InterProcessMutex(curator, path));
            case "read":
                return plain(new InterProcessReadWriteLock(curator, path).readLock());
            case "write":
                return plain(new InterProcessReadWriteLock(curator, path).writeLock());
            case "semaphore":
                return semaphore(new InterProcessSemaphoreV2(curator, path, permits));
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    private static Lock<Boolean> plain(InterProcessMutex lock) {
        return new Lock<>() {
            @Override
            public Boolean acquire() throws Exception {
                lock.acquire();
                return true;
            }

            @Override
            public void release(Boolean id) throws Exception {
                lock.release();
            }
        };
    }

    private static Lock<Lease> semaphore(InterProcessSemaphoreV2 semaphore) {
        return new Lock<>() {
            @Override
            public Lease acquire() throws Exception {
                return semaphore.acquire();
            }

            @Override
            public void release(Lease lease) {
                semaphore.returnLease(lease);
            }
        };
    }
}
