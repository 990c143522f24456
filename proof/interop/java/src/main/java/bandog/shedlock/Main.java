package bandog.shedlock;

import bandog.Neighbour;
import bandog.Unprotected;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import net.javacrumbs.shedlock.core.LockProvider;

/** The program for ShedLock. Its arguments are a URL as bandog has it, and lockAtMostFor in ms. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        Providers providers = new Providers(URI.create(args[0]));
        ThreadLocal<LockProvider> provider = ThreadLocal.withInitial(providers::connect);
        Duration atMost = Duration.ofMillis(Long.parseLong(args[1]));
        Neighbour.serve(
                Map.of("none", new Unprotected(), "lock", new SimpleLocks(provider, atMost)), Set.of("java.lang.Object"));
    }
}
