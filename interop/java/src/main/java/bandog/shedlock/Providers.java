package bandog.shedlock;

import java.net.URI;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** ShedLock on the database of a URL as bandog has it. */
final class Providers {
    private final String place;
    private final String[] user;

    Providers(URI url) {
        String jdbc = switch (url.getScheme()) {
            case "postgres" -> "jdbc:postgresql";
            case "mysql" -> "jdbc:mariadb";
            default -> throw new IllegalArgumentException("unknown database " + url.getScheme());
        };
        place = jdbc + "://" + url.getHost() + ":" + url.getPort() + url.getPath();
        user = url.getUserInfo().split(":");
    }

    /** A provider with a connection of its own, which stays open. It is for one thread. */
    LockProvider connect() {
        JdbcTemplate template = new JdbcTemplate(new SingleConnectionDataSource(place, user[0], user[1], true));
        return new JdbcTemplateLockProvider(
                JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template).usingDbTime().build());
    }
}
