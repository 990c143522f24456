use bandog_core::ErrorKind;

use std::collections::BTreeMap;

use super::*;

const FURTHER: FurtherOptions = FurtherOptions { names: &["layout"], shown: ", with the option layout=setnx" };

/// The options of this URL.
pub(crate) fn read(url: &str) -> Options {
    Options::from_url(url, &FURTHER).unwrap().0
}

fn login(user: Option<&str>, password: Option<&str>) -> Login {
    Login::of_url(user.map(str::to_owned), password.map(str::to_owned))
}

fn from_url(url: &str) -> Result<(Options, BTreeMap<String, String>)> {
    Options::from_url(url, &FURTHER)
}

#[test]
fn missing_parts_have_defaults() {
    for url in ["redis://", "redis://localhost", "redis://localhost/", "redis://localhost:6379/0", "redis:///0"] {
        assert_eq!(read(url).store(), "redis://localhost:6379/0", "{url}");
    }
    assert_eq!(read("redis://cache:7000/12").store(), "redis://cache:7000/12");
    assert_eq!(read("redis://[::1]:7000").store(), "redis://[::1]:7000/0");
    assert_eq!(read("redis://[::1]:7000").address, Address::Tcp { host: "::1".into(), port: 7000 });
    assert_eq!(read("rediss://cache").store(), "rediss://cache:6379/0");
    assert_eq!(read("redis+unix:///run/redis.sock").store(), "redis+unix:///run/redis.sock?db=0");
    assert_eq!(read("redis://x").timeout, Duration::from_secs(3));
}

#[test]
fn user_and_password_are_decoded() {
    let options = read("redis://us%65r:p%40ss%2Fw%C3%B6rd@h");
    assert_eq!(options.login, login(Some("user"), Some("p@ss/wörd")));
    let options = read("redis://:secret@h");
    assert_eq!(options.login, login(None, Some("secret")));
    let options = read("redis://user@h");
    assert_eq!(options.login, login(Some("user"), Some("")));
}

#[test]
fn the_files_of_tls_and_the_path_of_a_socket_are_decoded() {
    let files = |ca: Option<&str>, identity: Option<(&str, &str)>| Address::Tls {
        host: "h".into(),
        port: 6380,
        files: TlsFiles { ca: ca.map(Into::into), identity: identity.map(|(cert, key)| (cert.into(), key.into())) },
    };
    let options = read("rediss://u:p@h:6380/2?ca=/etc/my%20ca.pem&key=k&cert=c");
    assert_eq!(options.address, files(Some("/etc/my ca.pem"), Some(("c", "k"))));
    assert_eq!((options.db, options.login), (2, login(Some("u"), Some("p"))));
    assert_eq!(read("rediss://h:6380").address, files(None, None));
    let options = read("redis+unix://u:p%40@/run/my%20redis@1.sock?db=3");
    assert_eq!(options.address, Address::Unix { path: "/run/my redis@1.sock".into() });
    assert_eq!((options.db, options.login), (3, login(Some("u"), Some("p@"))));
    assert_eq!(read("redis+unix://:p@/s").login, login(None, Some("p")));
}

#[test]
fn sentinels_are_read() {
    let options = read("rediss+sentinel://u:p%40@h1,h2:7000,[::1]:1/orders-1/3?sentinel_password=x%26&ca=c");
    assert_eq!(options.store(), "rediss+sentinel://h1:26379,h2:7000,[::1]:1/orders-1/3");
    assert_eq!(options.login, login(Some("u"), Some("p@")));
    let Address::Sentinels(sentinels) = &options.address else { panic!("{:?}", options.address) };
    assert_eq!(sentinels.login, login(None, Some("x&")));
    assert!(!format!("{options:?} {sentinels:?}").contains("x&"));
    let host = &sentinels.hosts[2];
    let master = options.master_at(host);
    let tls = TlsFiles { ca: Some("c".into()), identity: None };
    assert_eq!(master.address, Address::Tls { host: "::1".into(), port: 1, files: tls });
    assert_eq!((&master.login, master.db, master.store()), (&options.login, 3, options.store()));
    let sentinel = options.sentinel_at(sentinels, host);
    assert_eq!((sentinel.login, sentinel.db), (login(None, Some("x&")), 0));
}

#[test]
fn named_addresses_are_replaced_by_those_of_the_map() {
    let map = "address_map=10.0.0.1:7000>cache-1:17000,[fd00::1]:7000>[::1]:17001";
    let options = read(&format!("rediss+cluster://h:6379?{map}&ca=c"));
    let files = TlsFiles { ca: Some("c".into()), identity: None };
    for (named, reached) in [(("10.0.0.1", 7000), ("cache-1", 17000)), (("fd00::1", 7000), ("::1", 17001))] {
        let node = options.of_node(&Host { name: named.0.into(), port: named.1 }, true);
        assert_eq!(node.address, Address::Tls { host: reached.0.into(), port: reached.1, files: files.clone() });
        assert!(node.address_hint().contains("address_map="), "{}", node.address_hint());
    }
    let other = options.of_node(&Host { name: "10.0.0.1".into(), port: 7001 }, false);
    assert_eq!(other.address, Address::Tls { host: "10.0.0.1".into(), port: 7001, files });
    assert!(other.address_hint().contains("add address_map=10.0.0.1:7001>HOST:PORT"), "{}", other.address_hint());
    assert_eq!(options.of_node(&Host { name: "h".into(), port: 6379 }, false).address_hint(), "", "the URL names it");

    let options = read("redis+sentinel://h/orders?address_map=10.0.0.1%3A7000%3Ecache-1%3A17000");
    let Address::Sentinels(sentinels) = &options.address else { panic!("{:?}", options.address) };
    let host = Host { name: "10.0.0.1".into(), port: 7000 };
    let reached = Address::Tcp { host: "cache-1".into(), port: 17000 };
    assert_eq!(options.master_at(&host).address, reached);
    assert_eq!(options.sentinel_at(sentinels, &host).other_sentinel(&host).address, reached);
}

#[test]
fn maps_of_addresses_that_cannot_be_read_are_refused() {
    for map in ["a:1", "a:1>b", "a>b:1", "a:1>b:0", "a:1>:1", "a:1>b:70000", "::1:1>b:1", "a:1>b:1,", "a:1>b:1,a:1>c:1"]
    {
        for scheme in ["redis+cluster://h", "redis+sentinel://h/orders"] {
            let error = from_url(&format!("{scheme}?address_map={map}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misused, "{map}");
            assert!(error.to_string().contains("address_map="), "{error}");
        }
    }
    for url in ["redis://h?address_map=a:1>b:1", "rediss://h?address_map=a:1>b:1"] {
        assert_eq!(from_url(url).unwrap_err().kind(), ErrorKind::Misused);
    }
}

#[test]
fn local_servers_are_recognized() {
    for (url, local) in [
        ("redis://localhost", true),
        ("redis://127.0.0.2", true),
        ("redis://[::1]", true),
        ("redis+unix:///s", true),
        ("redis://cache", false),
        ("redis://10.0.0.1", false),
    ] {
        assert_eq!(read(url).is_local(), local, "{url}");
    }
}

#[test]
fn unknown_parts_are_refused_and_named() {
    for (url, named) in [
        ("http://h", "\"http\""),
        ("redis://h/x", "\"/x\""),
        ("redis://h/1/2", "\"/1/2\""),
        ("redis://h/+1", "\"/+1\""),
        ("redis://h/65536", "\"/65536\""),
        ("redis://h?protocol=resp3", "\"protocol\""),
        ("redis://h?ca=x", "\"ca\""),
        ("rediss://h?db=1", "\"db\""),
        ("rediss://h?insecure=1", "\"insecure\""),
        ("rediss://h?ca=", "ca= is empty"),
        ("rediss://h?ca=a&ca=b", "ca= twice"),
        ("rediss://h?cert=a", "key=PATH"),
        ("rediss://h?key=a", "cert=PATH"),
        ("redis+unix:///s?db=x", "\"x\""),
        ("redis+unix:///s?ca=x", "\"ca\""),
        ("redis+unix://", "path"),
        ("redis+unix:///", "no socket"),
        ("redis+unix:/s", "path"),
        ("redis+unix://host/s", "no host"),
        ("redis+unix://u:p@host/s", "no host"),
        ("redis://h#here", "write %23"),
        ("redis://h:99999", "99999"),
        ("redis+sentinel://h", "no master"),
        ("redis+sentinel://h/", "no master"),
        ("redis+sentinel://h/a%20b", "no master"),
        ("redis+sentinel://h/orders/x", "\"x\""),
        ("redis+sentinel://h,,g/orders", "\"\" is not the host"),
        ("redis+sentinel:///orders", "\"\" is not the host"),
        ("redis+sentinel://h:1,g:99999/orders", "\"g:99999\""),
        ("redis+sentinel://h/orders?ca=x", "\"ca\""),
        ("redis+sentinel:h/orders", "is not the host"),
        ("localhost:6379", "\"localhost\""),
        ("cache", "\"cache\""),
    ] {
        let error = from_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{url}");
        assert!(error.to_string().contains(named) && error.to_string().contains("expected "), "{url}: {error}");
    }
}

#[test]
fn no_message_contains_a_password() {
    for url in [
        "redis://user:secret@h:99999",
        "redis://user:secret@h/x",
        "redis://user:se@cret@h:x",
        "redis://user:secret%ZZ@h",
        "redis://user:secret%FF@h",
        "rediss://user:secret@h?x",
        "rediss://user:secret@h?cert=a",
        "redis+unix://user:secret@host/s",
        "redis+unix://user:secret/s",
        "redis+unix://user:secret@/s?x=y",
        "redis:user:secret@h",
        "redis://user:secret%h:7412",
        "redis://user:1?secret@h",
        "redis://user:1#secret@h",
        "redis://user:1/secret@h",
        "redis+cluster://user:1/secret@h",
        "redis+sentinel://user:1/orders/secret@h",
        "redis://secret@h/x",
        "redis+cluster://secret@h:x",
        "redis+sentinel://secret@h",
        "user:secret@h",
        "//user:secret@h",
        "redis+sentinel://user:secret@h",
        "redis+sentinel://user:secret@h:x/orders",
        "redis+sentinel://user:secret@h,g:x/orders?sentinel_password=secret",
        "redis+sentinel://h/orders?sentinel_password=secret%ZZ",
        "redis+sentinel://user:secret%h,g:1/orders",
        "redis+sentinel:h?sentinel_password=secret",
        "redis+sentinel://h/orders?sentinel_password=top&secret",
        "redis+sentinel://h/orders?sentinel_password=top&layout=setnx&secret=x",
    ] {
        let error = from_url(url).unwrap_err();
        assert!(!error.to_string().contains("cret"), "{error}");
    }
    for url in ["redis://user:secret@h", "redis://secret@h", "redis+sentinel://secret@h/orders"] {
        let options = format!("{:?}", read(url));
        assert!(!options.contains("secret") && options.contains("the password in the URL"), "{options}");
    }
}

#[test]
fn fuzz_urls() {
    let samples = [
        "redis://user:PASSWORD@localhost:6379/0",
        "rediss://u:PASSWORD@h:6380/2?ca=/etc/my%20ca.pem&key=k&cert=c",
        "redis+unix://u:PASSWORD@/run/my%20redis.sock?db=3",
        "redis://:PASSWORD@[::1]:7000",
        "redis:///0",
        "redis+sentinel://u:PASSWORD@h1:1,[::1]/orders/3?sentinel_user=u&sentinel_password=x",
        "rediss+sentinel://h1,h2/orders?ca=c",
    ];
    let words =
        [",", "redis://", "rediss://", "redis+unix://", "?", "#", "@", "%40", "65536", "[::1]", "xn--", "..", "\\"];
    bandog_testkit::fuzz::texts("URLs of Redis", &samples, &words, |url| {
        let Ok((options, _)) = from_url(url) else { return false };
        let store = options.store();
        if matches!(options.address, Address::Unix { .. }) {
            return true; // A path is shown without encoding, so the shown text may not be a valid URL.
        }
        let (again, _) = from_url(&store).unwrap_or_else(|error| panic!("{url:?} gave {store:?}: {error}"));
        assert_eq!(again.store(), store, "{url:?}");
        if url.matches("PASSWORD").count() == 1 && options.login == login(options.login.user(), Some("PASSWORD")) {
            assert!(!store.contains("PASSWORD") && !format!("{options:?}").contains("PASSWORD"), "{store}");
        }
        true
    });
}

#[test]
fn further_options_are_returned_and_shown() {
    for (url, store) in [
        ("redis://h?layout=%61b", "redis://h:6379/0?layout=ab"),
        ("redis://h/1?layout=ab", "redis://h:6379/1?layout=ab"),
        ("rediss://h?layout=ab&ca=x", "rediss://h:6379/0?layout=ab"),
        ("redis+unix:///s?db=1&layout=ab", "redis+unix:///s?db=1&layout=ab"),
        ("redis+cluster://h,g?layout=ab", "redis+cluster://h:6379,g:6379?layout=ab"),
        ("redis+sentinel://h/orders?sentinel_user=u&layout=ab", "redis+sentinel://h:26379/orders/0?layout=ab"),
    ] {
        let (options, further) = from_url(url).unwrap();
        assert_eq!(further.get("layout").map(String::as_str), Some("ab"), "{url}");
        assert_eq!((options.with_suffix("layout=ab").store(), further.len()), (store.to_owned(), 1));
    }
    let error = from_url("redis://h?format=setnx").unwrap_err();
    assert!(error.to_string().contains("with the option layout=setnx"), "{error}");
}

#[test]
fn each_form_has_a_file_with_the_password_instead_of_the_password() {
    for (url, rest) in [
        ("redis://LOGIN@h", ""),
        ("rediss://LOGIN@h", ""),
        ("redis+unix://LOGIN@/s", ""),
        ("redis+cluster://LOGIN@h,i", ""),
        ("rediss+cluster://LOGIN@h,i", ""),
        ("redis+sentinel://LOGIN@h/orders", "&sentinel_user=w&sentinel_password_file=/q"),
        ("rediss+sentinel://LOGIN@h/orders", "&sentinel_user=w&sentinel_password_file=/q"),
    ] {
        let with = |login: &str| format!("{}?password_file=/run/p%20w{rest}", url.replace("LOGIN", login));
        let options = read(&with("till"));
        assert_eq!(options.login.blamed(), "the user in the URL and the password in the file /run/p w", "{url}");
        if let Address::Sentinels(sentinels) = &options.address {
            let of_sentinel = options.sentinel_at(sentinels, &sentinels.hosts[0]);
            assert_eq!(of_sentinel.login.blamed(), "the user in the URL and the password in the file /q");
        }
        let error = from_url(&with("till:hunter2")).unwrap_err();
        assert!(error.to_string().contains("only one of them") && !error.to_string().contains("hunter2"), "{error}");
        assert!(from_url(&with("till:")).is_ok(), "an empty password is none");
    }
    let both = "redis+sentinel://h/orders?sentinel_password=a&sentinel_password_file=b";
    assert!(from_url(both).unwrap_err().to_string().contains("only one of them"));
}
