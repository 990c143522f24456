package bandog.shedlock;

import java.net.URI;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** ShedLock on the database of a URL as bandog has it. */
final class Providers {
    /** Version 3.5.1 of the driver for MariaDB leaves the zone of the server in the session. This is the zone of the JVM. */
    private static final String ZONE = "?sessionVariables=time_zone='+08:00'";

    private final String place;
    private final String[] user;

    Providers(URI url) {
        String jdbc = switch (url.getScheme()) {
            case "postgres" -> "jdbc:postgresql";
            case "mysql" -> "jdbc:mariadb";
            default -> throw new IllegalArgumentException("unknown database " + url.getScheme());
        };
        String options = jdbc.equals("jdbc:mariadb") ? ZONE : "";
        place = jdbc + "://" + url.getHost() + ":" + url.getPort() + url.getPath() + options;
        user = url.getUserInfo().split(":");
    }

    /** A provider with a connection of its own, which stays open. It is for one thread. */
    LockProvider connect() {
        JdbcTemplate template = new JdbcTemplate(new SingleConnectionDataSource(place, user[0], user[1], true));
        return new JdbcTemplateLockProvider(
                JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template).usingDbTime().build());
    }
}
