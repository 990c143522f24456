package bandog;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A process with a library of Java that executes commands.
 *
 * <p>Each line on stdin is a command, its words separated by tabs: number, thread, kind, verb, name, and the arguments
 * of the verb. Each line on stdout is an answer: number, tab, text. Commands of one thread are executed in their order.
 * Commands of different threads are executed in parallel. The threads matter, because a lock belongs to the thread that
 * took it. The kind "thread" asks whether the thread sleeps, and is answered at once.
 */
public final class Neighbour {
    private static final PrintStream ANSWERS =
            new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private final Map<String, Kind> kinds;
    /** The classes in which threads of the library wait for a message. */
    private final Set<String> sleepers;
    private final Map<String, ExecutorService> executors = new HashMap<>();
    private final Map<String, Thread> threads = new HashMap<>();

    private Neighbour(Map<String, Kind> kinds, Set<String> sleepers) {
        this.kinds = kinds;
        this.sleepers = sleepers;
    }

    /** Executes commands until the input ends, and then ends the process. */
    public static void serve(Map<String, Kind> kinds, Set<String> sleepers) throws IOException {
        Neighbour neighbour = new Neighbour(kinds, sleepers);
        ANSWERS.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            neighbour.pass(line.split("\t"));
        }
        // The input has ended, so no further command comes. Locks that are still held expire after their ttl.
        Runtime.getRuntime().halt(0);
    }

    private void pass(String[] words) {
        if (words[2].equals("thread")) {
            ANSWERS.println(words[0] + "\t" + (sleeps(threads.get(words[1])) ? "asleep" : "awake"));
            return;
        }
        executors.computeIfAbsent(words[1], this::executor).execute(() -> {
            String answer;
            try {
                answer = obey(words);
            } catch (Exception e) {
                answer = "error " + e.getClass().getSimpleName() + ": " + e.getMessage();
            }
            ANSWERS.println(words[0] + "\t" + answer);
        });
    }

    private ExecutorService executor(String name) {
        return Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work);
            threads.put(name, thread);
            return thread;
        });
    }

    /** Whether a thread sleeps until a message wakes it. */
    private boolean sleeps(Thread thread) {
        Thread.State state = thread.getState();
        return (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING)
                && Arrays.stream(thread.getStackTrace()).anyMatch(frame -> sleepers.contains(frame.getClassName()));
    }

    private String obey(String[] words) throws Exception {
        Kind kind = kinds.get(words[2]);
        if (kind == null) {
            throw new IllegalArgumentException("unknown kind " + words[2]);
        }
        return kind.obey(words[3], words[4], Arrays.copyOfRange(words, 5, words.length));
    }
}
