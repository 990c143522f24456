package bandog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.locks.LockSupport;

/**
 * A counter in a file that only the lock under test protects. The file has two big-endian longs: the count, and the
 * fence of the last addition (0 if it had no fence).
 */
public final class Counter {
    /** Time between the two reads of {@link #check}, so that an addition by a second holder falls between them. */
    private static final long BETWEEN_READS_NANOS = 200_000;

    private final FileChannel file;

    private Counter(FileChannel file) {
        this.file = file;
    }

    /** The use of the counter in one turn. */
    public interface Turn {
        /** Runs the turn. The fence is 0 if the lock has none. */
        void run(long fence) throws IOException;
    }

    /** Takes a lock, runs a turn and releases the lock. */
    public interface Protection {
        void run(Turn turn) throws IOException;
    }

    /** Adds one to the counter repeatedly, under this protection. */
    public static String count(String path, int times, Protection protection) throws IOException {
        return repeat(path, times, protection, Counter::add);
    }

    /** Checks repeatedly, under this protection, that nothing adds to the counter. */
    public static String check(String path, int times, Protection protection) throws IOException {
        return repeat(path, times, protection, Counter::check);
    }

    private interface Use {
        void run(Counter counter, long fence) throws IOException;
    }

    private static String repeat(String path, int times, Protection protection, Use use) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            Counter counter = new Counter(file);
            for (int i = 0; i < times; i++) {
                protection.run(fence -> use.run(counter, fence));
            }
        }
        return String.valueOf(times);
    }

    private void add(long fence) throws IOException {
        ByteBuffer bytes = read();
        long last = bytes.getLong(Long.BYTES);
        if (fence != 0 && fence <= last) {
            throw new IllegalStateException("fence " + fence + " came after " + last);
        }
        bytes.putLong(0, bytes.getLong(0) + 1).putLong(Long.BYTES, fence).rewind();
        file.write(bytes, 0);
    }

    private void check(long fence) throws IOException {
        long before = read().getLong(0);
        LockSupport.parkNanos(BETWEEN_READS_NANOS);
        long after = read().getLong(0);
        if (before != after) {
            throw new IllegalStateException("the counter changed from " + before + " to " + after);
        }
    }

    private ByteBuffer read() throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(2 * Long.BYTES);
        file.read(bytes, 0);
        return bytes;
    }
}
