package bandog.quartz;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * Quartz for bandog's benchmark. The argument is a URL as bandog has it. The tables are created first.
 *
 * <p>Each line on stdin is a command, and the answer is one line on stdout: {@code firings TRIGGERS THREADS BATCH MILLIS}
 * starts a scheduler of a cluster with this number of empty jobs that are due every 10 ms. The answer is the number of
 * firings in this time, after a second of preparation.
 */
public final class Bench {
    private static final LongAdder FIRINGS = new LongAdder();
    /** Time in which the scheduler starts to fire. */
    private static final long PREPARATION = 1000;

    private final String jdbc;
    private final String[] user;
    private final boolean isPostgres;
    private int schedulers;

    private Bench(URI url) {
        isPostgres = url.getScheme().equals("postgres");
        String place = url.getHost() + ":" + url.getPort() + url.getPath();
        jdbc = isPostgres
                ? "jdbc:postgresql://" + place + "?currentSchema=quartz"
                : "jdbc:mariadb://" + place + "?allowMultiQueries=true";
        user = url.getUserInfo().split(":");
    }

    public static void main(String[] args) throws Exception {
        Bench bench = new Bench(URI.create(args[0]));
        bench.createTables();
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (!words[0].equals("firings")) {
                throw new IOException("unknown command " + words[0]);
            }
            System.out.println(bench.firings(words[1], words[2], words[3], Long.parseLong(words[4])));
        }
        // The input has ended, so the benchmark has ended, or this process has no benchmark any more.
        Runtime.getRuntime().halt(0);
    }

    /** Creates the tables with the script of Quartz, which is in its jar. */
    private void createTables() throws Exception {
        String script = "/org/quartz/impl/jdbcjobstore/tables_" + (isPostgres ? "postgres" : "mysql_innodb") + ".sql";
        try (InputStream text = Scheduler.class.getResourceAsStream(script);
                Connection connection = DriverManager.getConnection(jdbc, user[0], user[1]);
                Statement statement = connection.createStatement()) {
            if (isPostgres) {
                statement.execute("create schema quartz");
            }
            statement.execute(new String(text.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    private long firings(String triggers, String threads, String batch, long millis) throws Exception {
        Scheduler scheduler = new StdSchedulerFactory(properties(threads, batch)).getScheduler();
        for (int i = 0; i < Integer.parseInt(triggers); i++) {
            scheduler.scheduleJob(
                    JobBuilder.newJob(Empty.class).withIdentity("job-" + i).build(),
                    TriggerBuilder.newTrigger()
                            .withIdentity("trigger-" + i)
                            .withSchedule(SimpleScheduleBuilder.simpleSchedule()
                                    .withIntervalInMilliseconds(10)
                                    .repeatForever())
                            .build());
        }
        scheduler.start();
        Thread.sleep(PREPARATION);
        long before = FIRINGS.sum();
        long begin = System.nanoTime();
        Thread.sleep(millis);
        long fired = FIRINGS.sum() - before;
        long took = System.nanoTime() - begin;
        scheduler.standby();
        scheduler.shutdown(true);
        return fired * 1_000_000_000L / took;
    }

    private Properties properties(String threads, String batch) {
        schedulers++;
        Properties properties = new Properties();
        // The rows of each scheduler are its own.
        properties.setProperty("org.quartz.scheduler.instanceName", "bench-" + schedulers);
        properties.setProperty("org.quartz.scheduler.instanceId", "AUTO");
        properties.setProperty("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", batch);
        properties.setProperty("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        properties.setProperty("org.quartz.threadPool.threadCount", threads);
        properties.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        properties.setProperty("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore."
                + (isPostgres ? "PostgreSQLDelegate" : "StdJDBCDelegate"));
        properties.setProperty("org.quartz.jobStore.isClustered", "true");
        // Without this, two nodes can fire a trigger twice, and a batch needs it.
        properties.setProperty("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        properties.setProperty("org.quartz.jobStore.dataSource", "database");
        String source = "org.quartz.dataSource.database.";
        properties.setProperty(source + "provider", "hikaricp");
        properties.setProperty(source + "driver", isPostgres ? "org.postgresql.Driver" : "org.mariadb.jdbc.Driver");
        properties.setProperty(source + "URL", jdbc);
        properties.setProperty(source + "user", user[0]);
        properties.setProperty(source + "password", user[1]);
        properties.setProperty(source + "maxConnections", String.valueOf(Integer.parseInt(threads) + 3));
        return properties;
    }

    /** A job that does nothing. */
    public static final class Empty implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            FIRINGS.increment();
        }
    }
}
