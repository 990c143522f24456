package bandog;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A process with Redisson that executes commands.
 *
 * <p>Arguments: the server's URL and lockWatchdogTimeout in ms. Each line on stdin is a command, its words separated
 * by tabs: number, thread, verb, lock, and the arguments of the verb. Each line on stdout is an answer: number, tab,
 * text. Commands of one thread are executed in their order. Commands of different threads are executed in parallel.
 * The threads matter, because a lock belongs to the thread that took it.
 */
public final class Neighbour {
    private static final PrintStream ANSWERS =
            new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private final RedissonClient redisson;
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Neighbour(String url, long watchdog) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdog);
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(4);
        redisson = Redisson.create(config);
    }

    public static void main(String[] args) throws IOException {
        Neighbour neighbour = new Neighbour(args[0], Long.parseLong(args[1]));
        ANSWERS.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            neighbour.pass(line.split("\t"));
        }
        // The input has ended, so no further command comes. Locks that are still held expire after their ttl.
        Runtime.getRuntime().halt(0);
    }

    private void pass(String[] words) {
        threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor()).execute(() -> {
            String answer;
            try {
                answer = obey(words);
            } catch (Exception e) {
                answer = "error " + e.getClass().getSimpleName() + ": " + e.getMessage();
            }
            ANSWERS.println(words[0] + "\t" + answer);
        });
    }

    private String obey(String[] words) throws Exception {
        String name = words[3];
        // Each command gets a new lock object, because a lock object remembers the lease of its last call.
        RLock lock = redisson.getLock(name);
        switch (words[2]) {
            case "lock":
                lock.lock();
                return "held";
            case "lease":
                lock.lock(Long.parseLong(words[4]), TimeUnit.MILLISECONDS);
                return "held";
            case "try":
                return lock.tryLock() ? "held" : "busy";
            case "try-for":
                return lock.tryLock(Long.parseLong(words[4]), TimeUnit.MILLISECONDS) ? "held" : "busy";
            case "fence":
                return String.valueOf(redisson.getFencedLock(name).lockAndGetToken());
            case "token":
                return String.valueOf(redisson.getFencedLock(name).getToken());
            case "unlock":
                lock.unlock();
                return "freed";
            case "force":
                return lock.forceUnlock() ? "freed" : "free already";
            case "count":
                return count(name, words[4], words[5], Integer.parseInt(words[6]));
            case "turns":
                return turns(lock, Long.parseLong(words[4]));
            default:
                throw new IllegalArgumentException("unknown verb " + words[2]);
        }
    }

    /** Takes a lock of this kind repeatedly. Each time adds one to a counter in a file that only the lock protects. */
    private String count(String name, String kind, String file, int times) throws IOException {
        RFencedLock lock = redisson.getFencedLock(name);
        RLock plain = redisson.getLock(name);
        try (FileChannel counter =
                FileChannel.open(Path.of(file), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            for (int i = 0; i < times; i++) {
                switch (kind) {
                    case "none":
                        add(counter, 0);
                        break;
                    case "plain":
                        plain.lock();
                        try {
                            add(counter, 0);
                        } finally {
                            plain.unlock();
                        }
                        break;
                    case "fenced":
                        long fence = lock.lockAndGetToken();
                        try {
                            add(counter, fence);
                        } finally {
                            lock.unlock();
                        }
                        break;
                    default:
                        throw new IllegalArgumentException("unknown kind " + kind);
                }
            }
        }
        return String.valueOf(times);
    }

    /** The file has two big-endian longs: the count, and the fence of the last addition (0 if it had no fence). */
    private static void add(FileChannel counter, long fence) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(2 * Long.BYTES);
        counter.read(bytes, 0);
        long last = bytes.getLong(Long.BYTES);
        if (fence != 0 && fence <= last) {
            throw new IllegalStateException("fence " + fence + " came after " + last);
        }
        bytes.putLong(0, bytes.getLong(0) + 1).putLong(Long.BYTES, fence).rewind();
        counter.write(bytes, 0);
    }

    /** Takes and frees the lock repeatedly for this time. Returns the number of turns and the longest wait in µs. */
    private static String turns(RLock lock, long millis) {
        long start = System.nanoTime();
        long longest = 0;
        int turns = 0;
        for (long now = start; now - start < millis * 1_000_000; turns++) {
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - now);
            lock.unlock();
            now = System.nanoTime();
        }
        return turns + " " + longest / 1000;
    }
}
