use bandog::{
    ConnectOptions, ErrorKind,
    admin::{redact, without_secrets},
};

/// Checks that the URL is refused when it is parsed, with an error that contains all these texts.
#[track_caller]
fn refused(url: &str, texts: &[&str]) {
    let error = ConnectOptions::parse(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    for text in texts {
        assert!(error.to_string().contains(text), "{error} does not contain {text:?}");
    }
}

#[test]
fn the_error_of_an_unknown_scheme_names_the_known_schemes() {
    refused("mongo://localhost", &["mongo", "redis", "sqlite", "memory"]);
    refused("", &["redis://HOST"]);
}

#[test]
fn the_error_of_a_host_without_a_scheme_contains_the_right_url() {
    refused("localhost:6379", &["write redis://localhost:6379"]);
    refused("redis:6379", &["write redis://redis:6379"]);
    refused("cache.example:6379/2?timeout=1s", &["write redis://cache.example:6379/2?timeout=1s"]);
    refused("[::1]:6379", &["write redis://[::1]:6379"]);
    refused("localhost", &["redis://HOST"]);
    refused("app:hunter2@db:6379", &["app:***@db:6379", "write redis://, postgres:// or mysql:// in front of it"]);
    assert!(ConnectOptions::parse("memory:6379").is_ok(), "the name of a memory store can be a number");
}

// Promise: C10
#[test]
fn white_space_around_a_url_is_removed() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    for url in [
        "redis://db:7000/2",
        "redis+unix:///run/r.sock?db=3",
        "redis+sentinel://h1,h2/orders",
        "redis+cluster://h1,h2",
        "redis+quorum://h1,h2,h3",
        "postgres://app@db/shop",
        "mysql://app@db/shop",
        "zookeeper://h1,h2/folder",
        "sqlite:/no/such/l.db",
        "memory:name",
    ] {
        for text in [format!("{url}\n"), format!("\r\n\t {url} \r\n")] {
            assert_eq!(store(&text), store(url));
        }
        refused(&format!("\"{url}\""), &["the quote \""]);
        refused(&url.replacen(':', ":\n", 1), &["a line feed"]);
    }
    for url in
        ["redis+quorum://h1, h2,h3", "redis+cluster://h1 ,h2", "redis+sentinel://h1, h2/m", "zookeeper://h/a ?acl=open"]
    {
        refused(url, &["a blank"]);
    }
    refused("redis://:hun\nter2@db", &["a line feed inside, as its character number 13"]);
    assert!(ConnectOptions::parse("sqlite:/my dir/l.db").is_ok());
}

// Promise: C10
#[test]
fn a_url_for_a_child_has_its_options_and_no_mask() {
    for (scheme, options) in [
        ("redis://h1", "layout=setnx&semaphores=plain&replicas=1&java_skew=1s&watchdog=1s&timeout=1s&prefix=a:"),
        ("rediss+quorum://h1,h2,h3", "ca=/a&cert=/b&key=/c&max_ttl=1m"),
        ("postgres://app@db/shop", "tables=mine_&schema=s&create=false&pooler=session&sslmode=require&sslrootcert=/a"),
        ("mysql://app@db/shop", "tables=mine_&create=false&mode=rowlock&table=t&column=c&connections=3"),
        ("zookeeper://h1", "session=5s&acl=open"),
    ] {
        let url = format!("{scheme}?{options}");
        assert_eq!(without_secrets(&url), url);
        assert_eq!(redact(&url), url);
    }
}

/// With other options, the child would use other locks.
#[test]
fn a_url_for_a_child_keeps_the_options_of_other_clients_also_after_the_password() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    let map = "address_map=10.0.0.1:7000>h1:7000,10.0.0.2:7000>h1:7001";
    for url in [format!("redis+cluster://h1?{map}&prefix=a:"), format!("redis+sentinel://h1/m?{map}&prefix=a:")] {
        assert_eq!(without_secrets(&url), url);
        assert_eq!(redact(&url), url);
    }
    let url = format!("redis+sentinel://h1/m?sentinel_password=hunter2&{map}&prefix=a:");
    assert_eq!(without_secrets(&url), url.replace("sentinel_password=hunter2&", ""));
    for (place, options) in [
        ("postgres://db/shop", "applicationName=a&targetServerType=primary&tls=true&tables=a_&prefix=a:"),
        ("postgres://db/shop", "fallback_application_name=a&connectTimeout=3&keepalives=1&tables=a_&prefix=a:"),
        ("postgresql://db/shop", "pool_max_conns=3&stringtype=unspecified&tcp_user_timeout=5&schema=s&prefix=a:"),
        ("mysql:///shop", "unixSocket=/run/m.sock&autoReconnect=true&connectTimeout=3&tables=a_&prefix=a:"),
        ("mariadb://db/shop", "zeroDateTimeBehavior=ROUND&parseTime=true&loc=Local&tables=a_&prefix=a:"),
    ] {
        let bare = format!("{place}?user=app&{options}");
        for url in [format!("{place}?password=hunter2&user=app&{options}"), format!("{bare}&password=hunter2")] {
            assert!(["password=hunter2&", "&password=hunter2"].iter().any(|part| url.replace(part, "") == bare));
            assert_eq!(without_secrets(&url), bare);
            assert_eq!(redact(&url), url.replace("hunter2", "***"));
            assert_eq!(store(&url), store(&bare));
        }
    }
    // The child would get a URL without the options that follow the password.
    for url in ["postgres://db/shop?user=a&password=hunter2?&tables=a_", "mysql://db/shop?user=a&password=x&prefix=a?"]
    {
        refused(url, &["in password= or after it that must be encoded"]);
    }
}

/// A program reports each mistake of its configuration when it reads it.
#[test]
fn each_error_of_a_url_is_found_when_the_url_is_parsed() {
    for (url, text) in [
        ("redis://h/notadb", "\"/notadb\" is not a database; expected a number"),
        ("redis://h/65536", "\"/65536\" is not a database"),
        ("redis+unix:///s?db=x", "\"x\" is not a database"),
        ("redis+quorum://a,b,c/x", "\"/x\" is not a database"),
        ("redis+cluster://h/1", "no numbered databases; remove \"/1\""),
        ("redis://h?colour=red", "the unknown option \"colour\""),
        ("redis://h?prefix=a:&prefix=b:", "the option \"prefix\" twice"),
        ("redis://h?prefix=x", "the prefix \"x\" is not allowed: a prefix must end in ':'"),
        ("memory:?prefix=x", "the prefix \"x\" is not allowed"),
        ("redis://h?layout=zz", "the layout \"zz\" is unknown; redisson and setnx are known"),
        ("redis://h?semaphores=zz", "leased and plain are known"),
        ("redis://h?layout=setnx&semaphores=plain", "remove one of these options"),
        ("redis://h?timeout=2d", "must be between 1 ms and 1 day"),
        ("redis+quorum://a,b,c?timeout=4d", "must be between 1 ms and 1 day"),
        ("memory:?timeout=1ms", "the request timeout is 1ms; it must be between 10 ms"),
        ("memory:?watchdog=1ms", "the watchdog's ttl is 1ms; it must be between 100 ms"),
        ("redis+quorum://a,b,c?watchdog=61s", "the watchdog's ttl is 61s; on this quorum it must be at most 60s"),
        ("redis://h:99999", "cannot be read"),
        ("redis://hunter2%40h", "has %40 in its host: write @ between the login and the host"),
        ("redis://u:p@h?password_file=/p", "write only one of them"),
        ("redis://h?password_file=", "password_file= is empty"),
        ("rediss://h?ca=", "ca= is empty"),
        ("rediss://h?key=k", "both ?cert=PATH&key=PATH or neither"),
        ("rediss://a..b", "\"a..b\" is not a host name"),
        ("rediss+cluster://h,a..b", "\"a..b\" is not a host name"),
        ("rediss+sentinel://h,a..b/orders", "\"a..b\" is not a host name"),
        ("redis+sentinel://h", "the URL names no master"),
        ("redis+sentinel://h/a%20b", "the URL names no master"),
        ("redis+sentinel://h,,g/orders", "is not the host of a sentinel"),
        ("redis+sentinel://h/orders?address_map=a", "address_map="),
        ("redis+cluster://h,g:x", "has a host that cannot be read"),
        ("sqlite:/", "\"/\" is not the path of a file"),
        ("sqlite:/d/..", "is not the path of a file"),
        ("postgres://h/shop", "names no user"),
        ("postgres://u@h:x/shop", "has a port that is not a number"),
        ("postgres://u@h/shop/x", "more than one name after its host"),
        ("postgres://u@h?layout=zz", "leases and shedlock are known"),
        ("postgres://u@h?mode=zz", "rowlock and advisory are known"),
        ("postgres://u@h?mode=rowlock", "needs the options table and column"),
        ("postgres://u@h?connections=3", "which needs mode=rowlock or mode=advisory"),
        ("postgres://u@h?schema=A", "must have 1 to 63 lower-case letters"),
        ("postgres://u@h?tables=A", "must have 1 to 48 lower-case letters"),
        ("postgres://u@h?create=x", "write true or false"),
        ("postgres://u@h?pooler=transaction", "a pooler must be in the mode session"),
        ("postgres://u@h?sslmode=odd", "unknown sslmode"),
        ("postgres://u@h?sslcert=c", "but not sslmode=verify-full"),
        ("postgres://u@h,a..b/shop?sslmode=require", "\"a..b\" is not a host name"),
        ("mysql://u@h", "names no database"),
        ("mysql://u@h,g/shop", "names several hosts"),
        ("zookeeper://joe@h", "must have a user, a colon and a password"),
        ("zookeeper://h:0", "must be a number from 1 to 65535"),
        ("zookeeper://h/a//b", "is not a path of ZooKeeper"),
        ("zookeeper://h?session=1ms", "must be between 400ms and 1h"),
        ("zookeeper://h?acl=creator", "acl=creator needs a user"),
        ("zookeeper+tls://h?cert=c", "both ?cert=PATH&key=PATH or neither"),
    ] {
        refused(url, &[text]);
    }
}

#[test]
fn valkey_is_redis_and_schemes_may_be_in_any_case() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    for (url, same) in [
        ("valkey://db:7000/2", "redis://db:7000/2"),
        ("VALKEYS://db?ca=/x.pem", "rediss://db?ca=/x.pem"),
        ("valkey+unix:///run/v.sock?db=3", "redis+unix:///run/v.sock?db=3"),
        ("REDIS://db", "redis://db"),
        ("Rediss://u:p@db", "rediss://u:p@db"),
        ("Redis+Unix:///run/v.sock", "redis+unix:///run/v.sock"),
        ("MEMORY:", "memory:"),
    ] {
        assert_eq!(store(url), store(same), "{url}");
    }
    assert_eq!(redact("Valkey://u:hunter2@db"), "Valkey://u:***@db");
    assert_eq!(redact("SQLITE:/tmp/a@b:c.db"), "SQLITE:/tmp/a@b:c.db");
    refused("valkeys://db?db=1", &["\"db\"", "ca, cert, key, watchdog"]);
}

#[test]
fn the_url_of_a_cluster_names_some_of_its_nodes() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    for (url, same) in [
        ("redis+cluster://h1", "redis+cluster://h1:6379"),
        ("valkey+cluster://app:a,b@h1:7000,h2?timeout=1s", "redis+cluster://h1:7000,h2:6379"),
        ("VALKEYS+CLUSTER://[::1]:7000,h2/?ca=/x.pem&prefix=a:", "rediss+cluster://[::1]:7000,h2:6379"),
        ("redis+cluster://h1,h2?layout=setnx", "redis+cluster://h1:6379,h2:6379?layout=setnx"),
        ("redis+cluster://h1?address_map=10.0.0.1:7000>h1:7000,[::1]:7000>h1:7001", "redis+cluster://h1:6379"),
        ("redis+sentinel://h1/orders?address_map=10.0.0.1:7000>h1:7000", "redis+sentinel://h1:26379/orders/0"),
    ] {
        assert_eq!(store(url), same, "{url}");
    }
    refused("redis-cluster://h1", &["write redis+cluster://"]);
    refused("redis+cluster://h1,h2/3", &["no numbered databases"]);
    refused("redis+cluster://h1,,h2", &["lacks a host"]);
    refused("redis+cluster://h1:x,h2", &["cannot be read"]);
    refused("redis+cluster://app:hunter2@h1,app:hunter2@h2", &["write the login once"]);
    refused("redis+cluster://h1:7000,app:hunter2@h2", &["write the login once"]);
    refused("redis+cluster://h1?ca=/x.pem", &["\"ca\""]);
    let url = "redis+cluster://h1:7000,h2:7001?timeout=1s";
    assert_eq!(redact(url), url);
    assert_eq!(redact("redis+cluster://app:hunter2@h1:7000,h2"), "redis+cluster://app:***@h1:7000,h2");
    assert_eq!(redact("redis+cluster://app:hunter2,h1:7000,h2"), "redis+cluster://app:***");
}

#[test]
fn urls_of_sentinels_are_read_and_shown_without_their_passwords() {
    let url = "valkeys+sentinel://app:hunter2@h1,h2:7000,[::1]/orders/3?sentinel_user=dog&sentinel_password=hunter2\
               &ca=/x&timeout=1s&layout=setnx";
    let client = ConnectOptions::parse(url).unwrap().connect_lazy().unwrap();
    assert_eq!(client.store(), "rediss+sentinel://h1:26379,h2:7000,[::1]:26379/orders/3?layout=setnx");
    let shown = redact(url);
    assert!(!shown.contains("hunter2") && shown.contains("sentinel_user=dog&sentinel_password=***"), "{shown}");
    let bare = without_secrets(url);
    assert!(!bare.contains("password") && bare.contains("app@h1,h2:7000"), "{bare}");
    assert_eq!(redact("redis+sentinel://h1:1,h2:2/m"), "redis+sentinel://h1:1,h2:2/m");
    assert_eq!(redact("redis+sentinel://h1:1,app:secret/m"), "redis+sentinel://h1:1,app:***/m");
    let shown = "redis+sentinel://h1/m?timeout=1s&sentinel_password=***";
    for rest in ["&hunter2", "&hunter2=&ca=x", "&layout=setnx&hunter2", "&key=hunter2"] {
        let url = format!("redis+sentinel://h1/m?timeout=1s&sentinel_password=top{rest}");
        assert_eq!(redact(&url), shown);
        assert_eq!(without_secrets(&url), "redis+sentinel://h1/m?timeout=1s");
        refused(&url, &[shown, "an unknown option after sentinel_password=", "%26"]);
    }
    let url = "rediss+sentinel://h1/m?sentinel_password=***&key=k&cert=c&timeout=1s";
    assert_eq!(redact(url), url);
    assert_eq!(redact("redis://h?password=top&hunter2&timeout=1s&x=y"), "redis://h?password=***&***&timeout=1s&***");
    refused("redis-sentinel://h1/orders", &["write redis+sentinel://HOST:PORT,HOST:PORT/MASTER"]);
    refused("redis+sentinel://app:hunter2@h1,app:hunter2@h2/orders", &["write the login once"]);
    refused("redis+sentinel://h1?db=3", &["\"db\"", "sentinel_password, sentinel_password_file, watchdog"]);
}

/// The watchdog's ttl is the ttl of every lock without a lease, so each such call would be refused.
#[test]
fn the_watchdog_of_a_quorum_is_at_most_its_max_ttl() {
    refused("redis+quorum://a,b,c?watchdog=2m", &["watchdog's ttl is 120s", "at most 60s"]);
    let default = ConnectOptions::parse("redis+quorum://a,b,c?max_ttl=20s").unwrap();
    assert_eq!(default.get_watchdog().as_secs(), 20);
    for url in ["redis+quorum://a,b,c", "redis+quorum://a,b,c?watchdog=2m&max_ttl=2m"] {
        assert!(ConnectOptions::parse(url).and_then(ConnectOptions::connect_lazy).is_ok(), "{url}");
    }
    let options = ConnectOptions::parse("redis+quorum://a,b,c").unwrap().watchdog(std::time::Duration::from_secs(61));
    assert_eq!(options.connect_lazy().unwrap_err().kind(), ErrorKind::Misused);
}

#[test]
fn the_error_of_an_unsupported_store_names_the_supported_urls() {
    for (url, words) in [
        ("redis://h1,h2", ["several hosts", "write redis+sentinel://"]),
        ("rediss://app:hunter2@h1:6379,h2:6379/0", ["several hosts", "write redis+sentinel://"]),
        ("valkey://app:hunter2@h1,app:hunter2@h2", ["several hosts", "write redis+sentinel://"]),
        ("mongodb://app:hunter2@db/shop", ["not supported yet", "sqlite:PATH"]),
        ("mssql://app:hunter2@db/shop", ["not supported yet", "mysql://USER@HOST"]),
        ("etcd://h1:2379", ["not supported yet", "valkey://"]),
    ] {
        let error = ConnectOptions::parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error} does not contain {word:?}");
        }
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(ConnectOptions::parse("redis://app:a,b@db?prefix=a,b:").is_ok(), "a comma outside the host is allowed");
}

#[test]
fn the_error_of_an_unknown_option_names_the_known_options() {
    refused("memory:?watchdgo=10s", &["watchdgo", "watchdog", "timeout"]);
    refused("memory:?watchdog=10s&ttl=3s", &["ttl"]);
}

#[test]
fn an_option_of_one_scheme_is_refused_with_other_schemes() {
    refused("redis://db?ca=/x.pem", &["\"ca\"", "watchdog"]);
    refused("rediss://db?db=1", &["\"db\"", "ca, cert, key, watchdog"]);
    for url in ["redis://db", "rediss://db", "redis+unix:///run/redis.sock"] {
        assert!(ConnectOptions::parse(format!("{url}?java_skew=500ms&timeout=1s")).is_ok(), "{url}");
        refused(&format!("{url}?java_skew=soon"), &["java_skew"]);
        refused(&format!("{url}?skew=1s"), &["\"skew\"", "java_skew"]);
        assert!(ConnectOptions::parse(format!("{url}?replicas=2")).is_ok(), "{url}");
        for number in ["-1", "256", "two", ""] {
            refused(&format!("{url}?replicas={number}"), &["replicas", "from 0 to 255"]);
        }
    }
    refused("memory:?java_skew=1s", &["\"java_skew\"", "watchdog"]);
    refused("memory:?replicas=1", &["\"replicas\"", "watchdog"]);
    refused("sqlite:locks.db?layout=setnx", &["\"layout\"", "watchdog"]);
    refused("redis://db?layout=redlock", &["\"redlock\"", "redisson and setnx are known"]);
    refused("redis://db?semaphores=unleased", &["\"unleased\"", "leased and plain are known"]);
    refused("redis+unix:///run/redis.sock?ca=/x.pem", &["\"ca\"", "db, watchdog"]);
    refused("rediss://db?cert=/x.pem&timeout=1s", &["cert=PATH&key=PATH"]);
    refused("redis+unix:run/redis.sock", &["socket", "/PATH"]);
    refused("redis+unix://host/run/redis.sock", &["socket", "/PATH"]);
}

#[test]
fn options_that_only_the_backend_knows_are_passed_to_it() {
    let store = |url: &str| ConnectOptions::parse(url).unwrap().connect_lazy().unwrap().store().to_owned();
    assert_eq!(store("rediss://db?ca=/x.pem&timeout=1s"), "rediss://db:6379/0");
    assert_eq!(store("valkey://db?timeout=1s&layout=setnx"), "redis://db:6379/0?layout=setnx");
    assert_eq!(store("redis://db?semaphores=plain"), "redis://db:6379/0?semaphores=plain");
    assert_eq!(store("redis+unix://u:p@/run/a@b.sock?watchdog=10s&db=3"), "redis+unix:///run/a@b.sock?db=3");
}

#[test]
fn the_error_of_a_duration_out_of_bounds_names_the_bounds() {
    refused("memory:?watchdog=99ms", &["99ms", "100 ms", "365 days"]);
    refused("memory:?watchdog=0s", &["0ns", "100 ms", "365 days"]);
    refused("memory:?watchdog=400d", &["100 ms", "365 days"]);
    refused("memory:?watchdog=-5s", &["-5s", "not a duration"]);
    refused("memory:?watchdog=soon", &["soon", "not a duration"]);
    refused("memory:?watchdog", &["watchdog", "not a duration"]);
    refused("memory:?timeout=1ms", &["1ms", "between 10 ms and 365 days"]);
}

#[test]
fn options_override_the_urls_watchdog() {
    let ttl = |url: &str| ConnectOptions::parse(url).unwrap().get_watchdog().as_secs();
    assert_eq!((ttl("memory:"), ttl("memory:?watchdog=10s")), (30, 10));
    let options = ConnectOptions::parse("memory:?watchdog=10s").unwrap();
    assert_eq!(options.watchdog(std::time::Duration::from_secs(5)).get_watchdog().as_secs(), 5);
}

#[test]
fn durations_set_by_methods_have_the_same_bounds() {
    let options = ConnectOptions::parse("memory:").unwrap();
    let error = options.clone().watchdog(std::time::Duration::ZERO).connect_lazy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    let error = options.timeout(std::time::Duration::ZERO).connect_lazy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
}

#[test]
fn no_error_and_no_debug_shows_a_password() {
    for url in [
        "redis://app:hunter2@db?x=y",
        "redis://:hunter2@db/notanumber",
        "mongo://app:hunter2@db",
        "redis://app:hunter2@:x",
        "redis://host?password=hunter2",
        "redis://app:hunter2%host:7412",
        "redis://app@host?a=b&password=hunter2",
        "redis://app:1/hunter2@db",
        "redis://app:a?hunter2@db",
        "redis://app:a#hunter2@db",
        "redis:app:hunter2@db",
        "rediss://app:hunter2@db?cert=x",
        "redis+unix://app:hunter2/run/redis.sock",
        "redis+unix://app:1?hunter2@/run/redis.sock",
        "redis+unix://app:1@hunter2@/run/redis.sock",
        "redis+unix://app:1/hunter2@/run/redis.sock",
        "app:hunter2@db",
        "app:hunter2@db:6379",
        "app:1:hunter2@db:6379",
        ":hunter2@db:6379",
        "hunter2@db:6379",
        "hunter2@db",
        "app:hunter2%db:6379",
        "//app:hunter2@db",
        "REDIS:app:hunter2@db",
        "valkey://app:hunter2@db?x=y",
        "valkey:app:hunter2@db",
        "localhost:6379?password=hunter2",
        "redis+sentinel://app:hunter2@h1,h2",
        "redis+sentinel://h1/m/x?sentinel_password=hunter2",
        "redis://app:hunter2@h1,h2",
        "redis+cluster://app:hunter2@h1,h2/3",
        "redis+cluster://app:hunter2@h1,app:hunter2@h2",
        "rediss+cluster://app:hunter2@h1:x,h2",
        "redis+cluster://app:hunter2,h1",
        "postgres:app:hunter2@db",
        "mysql://app:hunter2@h1,h2/shop",
        "postgres://app:hunter2@db/shop?sslmode=odd",
        "postgres://app:other@db/shop?password=hunter2",
        "postgres://app@db/shop?password=hun@hunter2",
        "mysql://db/shop?user=app&pasword=hunter2",
        "jdbc:postgresql://db/shop?user=app&password=hunter2",
        "jdbc:postgresql://db/shop?user=app&password=p@hunter2",
        "mssql://db?password=p@hunter2",
        "postgres://db/shop?user=app&password=top&hunter2",
        "postgres://db/shop?user=app&password=top&Hunter=1&hunter2=1",
        "mysql://db/shop?user=app&password=top&hunter2&hunter2",
        "mysql://db/shop?user=app&pwd=top&hunter2&tables=a_",
        "postgres://db/shop?user=app&pwd=top&hunter2&hunter2",
        "postgresql+asyncpg://app:hunter2@db/shop",
        "zk://app:hunter2@one,two",
        "etcd://app:hunter2%db:1",
    ] {
        let parsed = ConnectOptions::parse(url);
        assert!(!format!("{parsed:?}").contains("hunter2"), "{parsed:?}");
        let error = parsed.expect_err(url);
        assert!(!format!("{error} {error:#}").contains("hunter2"), "{error:#}");
        assert!(!redact(url).contains("hunter2") && !without_secrets(url).contains("hunter2"), "{url}");
    }
}

#[test]
fn a_url_is_shown_without_its_password() {
    assert_eq!(redact("redis://app:se@cret@db:6379/2?watchdog=3s"), "redis://app:***@db:6379/2?watchdog=3s");
    assert_eq!(redact("redis://:secret@db"), "redis://:***@db");
    assert_eq!(redact("redis://db"), "redis://db");
    assert_eq!(redact("redis://db:6379/2?timeout=1s"), "redis://db:6379/2?timeout=1s");
    assert_eq!(redact("redis://[::1]:6379"), "redis://[::1]:6379");
    assert_eq!(redact("redis://u:secret%db:6379/2"), "redis://u:***/2");
    assert_eq!(redact("redis://db?password=secret&timeout=1s"), "redis://db?password=***&timeout=1s");
    let files = "rediss://u:***@db:6379/2?ca=/etc/ca.pem&cert=c.pem&key=k.pem&timeout=1s";
    assert_eq!(redact(&files.replace("***", "secret")), files);
    assert_eq!(redact("redis+unix://u:secret@/run/r.sock?db=1"), "redis+unix://u:***@/run/r.sock?db=1");
    assert_eq!(redact("redis+unix:///run/a@b.sock?db=1"), "redis+unix:///run/a@b.sock?db=1");
    assert_eq!(without_secrets("rediss://u:secret@db?ca=/x"), "rediss://u@db?ca=/x");
    assert_eq!(redact("sqlite:/tmp/a@b:c.db"), "sqlite:/tmp/a@b:c.db");
    assert_eq!(redact("sqlite:///tmp/a:b@c.db"), "sqlite:///tmp/a:b@c.db");
    assert_eq!(redact("app:secret@db"), "app:***@db");
    assert_eq!(redact("app:secret@db:6379"), "app:***@db:6379");
    assert_eq!(redact("app:secret%db:6379"), "app:***");
    assert_eq!(redact("localhost:6379/0"), "localhost:6379/0");
    assert_eq!(redact("redis:night"), "redis:night");
    let url = "postgres://db/shop?user=app&password=secret&connect_timeout=3&tables=a_";
    assert_eq!(redact(url), url.replace("secret", "***"));
    assert_eq!(without_secrets(url), url.replace("password=secret&", ""));
    assert_eq!(redact("postgres://db/shop?password=sec@ret&tables=a_"), "postgres://db/shop?password=***");
    assert_eq!(without_secrets("sqlite:///tmp/a:b@c.db"), "sqlite:///tmp/a:b@c.db");
    assert_eq!(without_secrets("redis://app:secret@db/2"), "redis://app@db/2");
    assert_eq!(without_secrets("redis://:secret@db/2"), "redis://db/2");
}

/// Clients of Redis accept a password without a colon, so users write it in the place of the user.
#[test]
fn a_password_in_the_place_of_the_user_is_not_shown() {
    for url in [
        "redis://hunter2@h:7000/2?timeout=1s",
        "REDISS://hunter2@h",
        "valkey://hunter2@h",
        "redis+unix://hunter2@/run/r.sock",
        "redis+cluster://hunter2@h1,h2",
        "redis+sentinel://hunter2@h1,h2/orders",
        "redis+quorum://hunter2@h1,h2,h3",
        "redis-cluster://hunter2@h1,h2",
        "rdis://hunter2@h",
        "redis://hun@hunter2@h",
        "redis://hunter2@h/notadb",
        "redis://hunter2@h?layout=zz",
        " redis://hunter2@h\n",
        "redis://hunter2@h?x\n=y",
        "\"redis://hunter2@h\"",
    ] {
        let parsed = ConnectOptions::parse(url);
        let printed = match &parsed {
            Ok(options) => format!("{options:?} {}", options.clone().connect_lazy().unwrap().store()),
            Err(error) => format!("{error:#} {error:?}"),
        };
        for shown in [printed, redact(url), without_secrets(url)] {
            assert!(!shown.contains("hunter2"), "{url}: {shown}");
        }
    }
    assert_eq!(redact("redis://hunter2@h/2"), "redis://***@h/2");
    assert_eq!(without_secrets("redis://hunter2@h/2"), "redis://h/2");
    for url in [
        "redis://till@h?timeout=1s&password_file=/run/p",
        "postgres://app@h/shop",
        "postgresql+asyncpg://app@h/shop",
        "mariadb://app@h/shop",
        "zookeeper://app@h",
        "redis+unix:///run/a@b.sock?db=1",
    ] {
        assert_eq!(redact(url), url);
        assert_eq!(without_secrets(url), url);
    }
}

/// Where a URL ends in a longer text is not known, so more than the password may be hidden.
#[test]
fn no_password_in_a_longer_text_is_shown() {
    for text in [
        "cannot connect to redis://app:hunter2@h:6379/0: refused",
        "cannot connect to redis://hunter2@h",
        "postgres: redis://hunter2@h",
        "sqlite:/d/x.db,redis://app:hunter2@h",
        "url=redis://hunter2@h",
        "redis://app:hunter2@h1,redis://app:hunter2@h2",
        "redis://h1,redis://app:hunter2@h2",
        "redis://hunter2@h1,hunter2@h2",
        "redis://app:hunter2@h1 redis://app:hunter2@h2",
        "redis://app:hunter2@h1\nredis://app:hunter2@h2",
        "postgres://app:hunter2@h1/shop,postgres://app:hunter2@h2/shop",
        "postgres://app@h1,other:hunter2@h2/shop",
        "redis://app:x%40hunter2@h",
        "redis://app:x%2Fhunter2@h/0",
        "redis://app:hunter2%40h",
        "redis://hunter2%40h",
        "redis://h1,hunter2%40h2",
        "postgres://app:x/hunter2?x#hunter2@h/shop?sslmode=require",
        "mysql://app:x@hunter2/hunter2@h/shop",
    ] {
        for shown in [redact(text), without_secrets(text)] {
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
        }
    }
}

/// Settings of other libraries and words of commands are no URLs. Their passwords are hidden all the same.
#[test]
fn no_message_shows_a_password_of_settings_that_are_no_url() {
    for (text, words) in [
        ("host=127.0.0.1 port=5432 user=app password=hunter2 dbname=shop", "a list of settings"),
        ("password=hunter2 host=db", "a list of settings"),
        ("Server=db;User Id=app;Password=hunter2;Database=shop", "a list of settings"),
        ("db:6379,password=hunter2,abortConnect=False", "has no scheme"),
        ("redis://db:6379,password=hunter2,ssl=False", "options follow a ?"),
        ("redis+cluster://db,password=hunter2", "options follow a ?"),
        ("redis+sentinel://db,password=hunter2/orders", "options follow a ?"),
        ("redis+quorum://a,b,password=hunter2", "options follow a ?"),
        ("zookeeper://db,password=hunter2", "options follow a ?"),
        ("postgres://db:5432/shop;user=app;password=hunter2", "options follow a ?"),
        ("sqlserver://db;password=hunter2", "not supported yet"),
        ("sqlite:/tmp/x.db?password=hunter2", "unknown option"),
        ("memory:x?pwd=hunter2", "unknown option"),
        ("redis-cli -h db -a hunter2", "is not a URL"),
        ("BANDOG_URL=redis://app:hunter2@db", "begins with BANDOG_URL=, which is no part of it"),
    ] {
        let error = ConnectOptions::parse(text).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("hunter2"), "{text}: {error}");
        assert!(!redact(text).contains("hunter2"), "{}", redact(text));
    }
    let url = "sqlite:/d/password=1/x.db";
    assert!(ConnectOptions::parse(url).is_ok(), "a file may have such a name");
    assert_eq!(redact("redis://h/0?prefix=a:&timeout=1s"), "redis://h/0?prefix=a:&timeout=1s");
}

#[test]
fn a_blank_in_a_prefix_is_encoded() {
    for prefix in [" x:", "x: ", "a b:"] {
        let error = ConnectOptions::parse(format!("redis://h?prefix={prefix}&timeout=1s")).unwrap_err();
        assert!(error.to_string().contains("write %20"), "{error}");
    }
    assert!(ConnectOptions::parse("redis://h?prefix=a%20b:").is_ok());
}
