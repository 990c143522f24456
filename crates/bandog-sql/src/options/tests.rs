use super::*;

fn login(user: &str, password: Option<&str>) -> Login {
    Login::of_url(Some(user.to_owned()), password.map(str::to_owned))
}

fn read(url: &str) -> SqlOptions {
    SqlOptions::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn a_url_names_the_server_the_user_and_the_database() {
    let options = read("postgres://app:p%40%2Fw@db.internal:5433/shop?schema=locks_1");
    assert_eq!(options.address, Address::Tcp { host: "db.internal".into(), port: 5433, tls: Tls::Off });
    assert_eq!(options.login, login("app", Some("p@/w")));
    assert_eq!((options.database.as_str(), options.schema.as_str()), ("shop", "locks_1"));
    let short = read("postgresql://app@[::1]");
    assert_eq!(short.address, Address::Tcp { host: "::1".into(), port: 5432, tls: Tls::Off });
    assert_eq!((short.database.as_str(), short.schema.as_str(), &short.login), ("app", "bandog", &login("app", None)));
    assert_eq!(read("postgresql://app@[::1]").store(), "postgres://[::1]:5432/app");
}

#[test]
fn a_url_names_a_socket() {
    let options = read("postgres://app@/shop?host=/run/postgresql&port=5433");
    assert_eq!(options.address, Address::Unix { path: "/run/postgresql/.s.PGSQL.5433".into() });
    assert_eq!(options.store(), "postgres:///shop?host=/run/postgresql");
}

#[cfg(feature = "mysql")]
#[test]
fn a_url_of_mysql_names_a_database() {
    let options = read("mariadb://app:p%40%2Fw@db.internal/Shop");
    assert_eq!(options.address, Address::Tcp { host: "db.internal".into(), port: 3306, tls: Tls::Off });
    assert_eq!((&options.login, options.database.as_str()), (&login("app", Some("p@/w")), "Shop"));
    assert_eq!(options.store(), "mysql://db.internal:3306/Shop");
    let options = read("mysql://app@/shop?socket=/run/mysqld/mysqld.sock");
    assert_eq!(options.address, Address::Unix { path: "/run/mysqld/mysqld.sock".into() });
    assert_eq!(options.store(), "mysql:///shop?socket=/run/mysqld/mysqld.sock");
}

#[test]
fn a_url_names_the_files_for_tls() {
    let options = read("postgres://app@db/shop?sslmode=require&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem");
    let files = TlsFiles { ca: Some("/ca.pem".into()), identity: Some(("/c.pem".into(), "/k.pem".into())) };
    assert_eq!(options.address, Address::Tcp { host: "db".into(), port: 5432, tls: Tls::Checked(files) });
}

#[test]
fn the_url_that_a_service_already_has_is_accepted() {
    for url in [
        "postgres://app:s3cret@db/shop?connect_timeout=10&application_name=shop&target_session_attrs=read-write",
        "postgresql://db:5432/shop?user=app&password=s3cret&ApplicationName=shop&ssl=false&loginTimeout=10",
        "postgres://app:s3cret@db/shop?connection_limit=5&pool_timeout=2&fallback_application_name=shop&pgbouncer=true",
        "postgres://app:s3cret@db/shop?application_name=shop&channel_binding=prefer&gssencmode=prefer&sslmode=disable",
    ] {
        let options = read(url);
        assert_eq!(options.address, Address::Tcp { host: "db".into(), port: 5432, tls: Tls::Off }, "{url}");
        assert_eq!(options.login, login("app", Some("s3cret")), "{url}");
        assert_eq!(
            (options.application.as_str(), options.store().as_str()),
            ("shop", "postgres://db:5432/shop"),
            "{url}"
        );
    }
    let options = read("postgres://app@db/shop?options=-c%20search_path%3Dapp&sslmode=prefer");
    assert_eq!((options.startup.as_deref(), options.application.as_str()), (Some("-c search_path=app"), "bandog"));
    assert_eq!(options.address, Address::Tcp { host: "db".into(), port: 5432, tls: Tls::Preferred });
    let socket = read("postgres://app@%2Frun%2Fpostgresql/shop?sslmode=prefer");
    assert_eq!(socket.address, Address::Unix { path: "/run/postgresql/.s.PGSQL.5432".into() });
}

#[cfg(feature = "mysql")]
#[test]
fn the_url_of_mysql_that_a_service_already_has_is_accepted() {
    for (options, tls) in [
        ("charset=utf8mb4&serverTimezone=UTC&useUnicode=true&allowPublicKeyRetrieval=true&useSSL=false", Tls::Off),
        ("ssl-mode=DISABLED&timezone=UTC&statement-cache-capacity=10", Tls::Off),
        ("sslMode=PREFERRED&connectTimeout=1000&rewriteBatchedStatements=true", Tls::Preferred),
        ("ssl-mode=VERIFY_IDENTITY", Tls::Checked(TlsFiles::default())),
        ("tls=true&parseTime=true&loc=Local", Tls::Checked(TlsFiles::default())),
    ] {
        let read = read(&format!("mysql://app@db/shop?{options}"));
        assert_eq!(read.address, Address::Tcp { host: "db".into(), port: 3306, tls }, "{options}");
    }
    let options = read("mysql://app@/shop?unix_socket=/run/mysqld/mysqld.sock&application_name=shop");
    assert_eq!(options.address, Address::Unix { path: "/run/mysqld/mysqld.sock".into() });
}

#[test]
fn a_url_names_several_hosts_of_one_cluster() {
    let options = read("postgres://app@one:5433,two,[::1]:5434/shop");
    assert_eq!(options.store(), "postgres://one:5433,two:5432,[::1]:5434/shop");
    let hosts = options.hosts();
    let stores: Vec<_> = hosts.iter().map(SqlOptions::store).collect();
    assert_eq!(stores, ["postgres://one:5433/shop", "postgres://two:5432/shop", "postgres://[::1]:5434/shop"]);
    assert!(hosts.iter().all(|host| host.attempts == 3));
}

/// A host that is left out in silence would be another store after a failover.
#[test]
fn hosts_beside_a_socket_are_refused() {
    for url in [
        "postgres://app@%2Frun%2Fpostgresql,two/shop",
        "postgres://app@two,%2Frun%2Fpostgresql/shop",
        "postgres://app@,two/shop?host=/run/postgresql",
        #[cfg(feature = "mysql")]
        "mysql://app@,two/shop?socket=/run/mysqld/mysqld.sock",
    ] {
        let error = SqlOptions::from_url(url).expect_err(url);
        assert!(error.to_string().contains("other hosts beside a Unix socket"), "{url}: {error}");
    }
}

#[test]
fn a_url_says_if_the_tables_must_exist() {
    assert!(read("postgres://app@db").creates_tables);
    assert!(read("postgres://app@db?create=true").creates_tables);
    assert!(!read("postgres://app@db?create=false").creates_tables);
}

#[test]
fn a_url_names_the_place_of_the_holds() {
    for (url, store) in [
        ("postgres://app@db/shop?layout=shedlock", "postgres://db:5432/shop?layout=shedlock"),
        ("postgres://app@db/shop?layout=shedlock&table=shedlock", "postgres://db:5432/shop?layout=shedlock"),
        ("postgres://app@db/shop?table=Jobs&layout=shedlock", "postgres://db:5432/shop?layout=shedlock&table=Jobs"),
        (
            "postgres://app@db/shop?layout=shedlock&table=app.jobs",
            "postgres://db:5432/shop?layout=shedlock&table=app.jobs",
        ),
        ("postgres://app@db/shop?tables=shop_locks_", "postgres://db:5432/shop?tables=shop_locks_"),
        ("postgres://app@db/shop?layout=leases", "postgres://db:5432/shop"),
        ("postgres://app@db/shop?mode=advisory&connections=3", "postgres://db:5432/shop?mode=advisory"),
        (
            "postgres://app@db/shop?mode=rowlock&table=tb_lock&column=lockname",
            "postgres://db:5432/shop?mode=rowlock&table=tb_lock&column=lockname",
        ),
        #[cfg(feature = "mysql")]
        ("mysql://app@db/shop?layout=shedlock&table=locks", "mysql://db:3306/shop?layout=shedlock&table=locks"),
    ] {
        assert_eq!(read(url).store(), store, "{url}");
    }
}

#[test]
fn the_printed_schema_names_the_schema_and_the_user() {
    let text = read("postgres://o%22dd%20user:secret@db/shop?schema=locks_1").schema_sql();
    assert!(text.contains("set local search_path to \"locks_1\""), "{text}");
    assert!(
        text.contains(
            "on bandog_meta, bandog_fence, bandog_lease, bandog_record, bandog_line, bandog_client, bandog_work_queues, \
             bandog_work, bandog_work_body, bandog_work_kept to \"o\"\"dd user\";"
        ),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}

#[cfg(feature = "mysql")]
#[test]
fn the_printed_tables_for_mysql_name_the_rights() {
    let text = read("mysql://o'dd:secret@db/sh%60op").schema_sql();
    assert!(
        text.contains("-- grant select, insert, update, delete on `sh``op`.bandog_lease to 'o''dd'@'%';"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    let text = read("mysql://app@db/shop?mode=rowlock&table=tb_lock&column=lockname").schema_sql();
    assert!(text.contains("-- grant select, insert, update on `shop`.`tb_lock` to 'app'@'%';"), "{text}");
}

#[test]
fn a_wrong_url_is_refused_without_its_password() {
    for url in [
        "postgres:db",
        "mssql://app@db",
        #[cfg(not(feature = "mysql"))]
        "mysql://app@db/shop",
        #[cfg(feature = "mysql")]
        "mysql://app@db",
        #[cfg(feature = "mysql")]
        "mysql://app:secret@db/shop?schema=locks",
        #[cfg(feature = "mysql")]
        "mysql://app:secret@/shop?host=/run/mysqld",
        #[cfg(feature = "mysql")]
        "mysql://app:secret@/shop?socket=relative",
        "postgres://db/shop",
        "postgres://app:secret@db/shop?tables=Locks",
        "postgres://app:secret@db/shop?tables=lo-cks_",
        "postgres://app:secret@db/shop?tables=1locks",
        "postgres://app:se@cret@db/shop",
        "postgres://app:se#cret@db/shop",
        "postgres://app:se@cr?secret@db/shop",
        "postgres://app:se?secret@db/shop",
        "postgres://app:secret@db:port/shop",
        "postgres://app:secret@db/shop/more",
        "postgres://app:secret@one,,two/shop",
        #[cfg(feature = "mysql")]
        "mysql://app:secret@one,two/shop",
        "postgres://app:secret@db/shop?password=secret",
        "postgres://app:secret@db/shop?user=app",
        "postgres://app:secret@db/shop?target_session_attrs=read-only",
        "postgres://app:secret@db/shop?channel_binding=require",
        "postgres://app:secret@db/shop?gssencmode=require",
        "postgres://app:secret@db/shop?sslmode=require&ssl=false",
        "postgres://app:secret@/shop",
        "postgres://app:secret@/shop?host=relative",
        "postgres://app:secret@[::1/shop",
        "postgres://app:secret@db/shop?sslmode=prefer&sslrootcert=/ca.pem",
        "postgres://app:secret@db/shop?sslrootcert=/ca.pem",
        "postgres://app:secret@db/shop?sslmode=require&sslkey=/k.pem",
        "postgres://app:secret@db/shop?schema=Shop",
        "postgres://app:secret@db/shop?schema=1st",
        "postgres://app:secret@db/shop?schema=a;drop",
        "postgres://app:secret@db/shop?create=no",
        "postgres://app:secret@db/shop?pooler=transaction",
        "postgres://app:secret@db/shop?table=locks",
        "postgres://app:secret@db/shop?layout=rows",
        "postgres://app:secret@db/shop?mode=row",
        "postgres://app:secret@db/shop?mode=rowlock&table=tb_lock",
        "postgres://app:secret@db/shop?mode=rowlock&table=tb_lock&column=a\"b",
        "postgres://app:secret@db/shop?mode=advisory&layout=shedlock",
        "postgres://app:secret@db/shop?mode=advisory&table=tb_lock",
        "postgres://app:secret@db/shop?mode=advisory&connections=0",
        "postgres://app:secret@db/shop?connections=3",
        "postgres://app:secret@db/shop?session_zone=UTC",
        "postgres://app:secret@db/shop?layout=shedlock&session_zone=GMT%2B8",
        "postgres://app:secret@db/shop?layout=shedlock&session_zone=CST",
        "postgres://app:secret@db/shop?layout=shedlock&session_zone=+8",
        "postgres://app:secret@db/shop?layout=shedlock&session_zone=Asia/O'Higgins",
        "postgres://app:secret@db/shop?layout=shedlock&table=a.b.c",
        "postgres://app:secret@db/shop?layout=shedlock&table=a\"b",
        "postgres://app:secret@db/shop?layout=shedlock&table=a;b",
        "postgres://app:secret@db/shop?layout=shedlock&table=a$name",
        "postgres://app:secret@db/shop?layout=shedlock&table=a$1.b",
        "postgres://app:secret@db/shop?mode=rowlock&table=tb_lock&column=a$b",
        #[cfg(feature = "mysql")]
        "mysql://app:secret@db/shop?layout=shedlock&table=a`b",
        "postgres://app:secret@db/shop?schema=a&schema=b",
        "postgres://app:secret%00@db/shop",
        "postgres://db/shop?user=app&password=top&secret",
        "postgres://db/shop?user=app&password=top&secret&zone=1",
        "postgres://db/shop?user=app&pasword=top&Secret=",
    ] {
        let error = SqlOptions::from_url(url).expect_err(url);
        assert_eq!(error.kind(), bandog_core::ErrorKind::Misused, "{url}");
        assert!(!error.to_string().contains("cret"), "{error}");
    }
}

#[test]
fn the_first_unknown_option_is_named_and_none_after_the_password() {
    let error = |url: &str| SqlOptions::from_url(url).unwrap_err().to_string();
    assert!(error("postgres://app@db/shop?tabels=a_&colour=red").contains("the option \"tabels\", which is unknown"));
    let hidden = error("postgres://db/shop?user=app&password=top&secret&tables=a_");
    assert!(hidden.contains("an unknown option after password=") && hidden.contains("%26"), "{hidden}");
}

/// The error names what the option needs, and lists no option that this URL cannot have.
#[test]
fn an_option_without_the_option_that_it_needs_is_refused_with_the_need() {
    for (url, name, needs) in [
        ("postgres://app@db/shop?connections=2", "connections", "needs mode=rowlock or mode=advisory"),
        ("postgres://app@db/shop?column=c", "column", "needs mode=rowlock"),
        ("postgres://app@db/shop?mode=advisory&table=t", "table", "needs mode=rowlock or layout=shedlock"),
        ("postgres://app@db/shop?session_zone=UTC", "session_zone", "needs layout=shedlock"),
        ("postgres://app@db/shop?host=/run", "host", "needs a Unix socket"),
        ("postgres://app@db/shop?socket=/run/s", "socket", "is for MySQL only"),
        #[cfg(feature = "mysql")]
        ("mysql://app@db/shop?connections=2", "connections", "needs mode=rowlock or mode=advisory"),
        #[cfg(feature = "mysql")]
        ("mysql://app@db/shop?schema=s", "schema", "is for PostgreSQL only"),
        #[cfg(feature = "mysql")]
        ("mysql://app@db/shop?socket=/run/s", "socket", "needs a Unix socket"),
        #[cfg(feature = "mysql")]
        ("mysql://app@/shop?socket=/run/s&sslmode=require", "sslmode", "needs a host"),
    ] {
        let error = SqlOptions::from_url(url).expect_err(url).to_string();
        let (what, known) = error.split_once("; ").unwrap();
        assert!(
            what.ends_with(&format!("the option {name:?}, which {needs}")) || what.contains(needs),
            "{url}: {error}"
        );
        let names: Vec<_> = known.split(", ").map(|known| known.split(' ').next().unwrap()).collect();
        assert!(names.contains(&"tables") && !names.contains(&name), "{url}: {error}");
    }
}

#[test]
fn a_wrong_value_is_refused_with_the_known_ones() {
    let error =
        |option: &str| SqlOptions::from_url(&format!("postgres://app@db/shop?{option}")).unwrap_err().to_string();
    let bogus = error("target_session_attrs=bogus");
    assert!(bogus.contains("write read-write, primary or any") && !bogus.contains("refuses writes"), "{bogus}");
    for refusing in ["read-only", "standby", "prefer-standby"] {
        assert!(error(&format!("target_session_attrs={refusing}")).contains("refuses writes"), "{refusing}");
    }
    for (option, form) in [
        ("connect_timeout=abc", "whole seconds"),
        ("connect_timeout=5s", "whole seconds"),
        ("keepalives_idle=x", "whole seconds"),
        ("tcp_user_timeout=1.5", "whole milliseconds"),
    ] {
        let refused = error(option);
        let (name, value) = option.split_once('=').unwrap();
        assert!(
            refused.contains(name) && refused.contains(form) && !refused.contains(&format!("{value:?}")),
            "{refused}"
        );
    }
    for accepted in
        ["connect_timeout=10", "connect_timeout=0", "connect_timeout=-1", "connect_timeout=", "keepalives=1"]
    {
        read(&format!("postgres://app@db/shop?{accepted}"));
    }
    #[cfg(feature = "mysql")]
    assert!(SqlOptions::from_url("mysql://app@db/shop?connect_timeout=abc").is_err());
}

#[test]
fn debug_output_has_no_password() {
    let shown = format!("{:?}", read("postgres://app:secret@db/shop"));
    assert!(!shown.contains("secret"), "{shown}");
}
