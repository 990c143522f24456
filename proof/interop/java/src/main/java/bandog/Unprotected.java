package bandog;

import java.io.IOException;

/** No lock at all, to show that a missing lock loses additions. */
public final class Unprotected implements Kind, Counter.Protection {
    @Override
    public String obey(String verb, String name, String... args) throws Exception {
        if (!verb.equals("count")) {
            throw Kind.unknown(verb);
        }
        return Counter.count(args[0], Integer.parseInt(args[1]), this);
    }

    @Override
    public void run(Counter.Turn turn) throws IOException {
        turn.run(0);
    }
}
