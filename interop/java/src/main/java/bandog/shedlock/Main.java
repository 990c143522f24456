package bandog.shedlock;

import bandog.Neighbour;
import bandog.Unprotected;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** The program for ShedLock. Its arguments are a URL as bandog has it, and lockAtMostFor in ms. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        URI url = URI.create(args[0]);
        String[] user = url.getUserInfo().split(":");
        String jdbc = switch (url.getScheme()) {
            case "postgres" -> "jdbc:postgresql";
            case "mysql" -> "jdbc:mariadb";
            default -> throw new IllegalArgumentException("unknown database " + url.getScheme());
        };
        String place = jdbc + "://" + url.getHost() + ":" + url.getPort() + url.getPath();
        // Each thread has a connection, which stays open.
        ThreadLocal<LockProvider> provider = ThreadLocal.withInitial(() -> {
            JdbcTemplate template = new JdbcTemplate(new SingleConnectionDataSource(place, user[0], user[1], true));
            return new JdbcTemplateLockProvider(
                    JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template).usingDbTime().build());
        });
        Duration atMost = Duration.ofMillis(Long.parseLong(args[1]));
        Neighbour.serve(
                Map.of("none", new Unprotected(), "lock", new SimpleLocks(provider, atMost)), Set.of("java.lang.Object"));
    }
}
