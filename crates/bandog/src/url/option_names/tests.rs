use super::{super::without_secrets, OF_ALL, Scheme, backend, of_backend, of_client, of_database};

const SCHEMES: [&str; 14] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+quorum",
    "rediss+quorum",
    "postgres",
    "mysql",
    "zookeeper",
    "zookeeper+tls",
    "memory",
];

#[test]
fn a_url_for_a_child_keeps_each_known_option_of_each_scheme() {
    for word in SCHEMES {
        let scheme = backend(word).unwrap().0;
        let secret = match scheme {
            Scheme::Redis => "sentinel_password",
            Scheme::Quorum | Scheme::MySql | Scheme::Postgres | Scheme::Sqlite | Scheme::ZooKeeper | Scheme::Memory => {
                "password"
            }
        };
        let names = OF_ALL.iter().chain(of_client(scheme)).chain(of_backend(word)).copied().chain(of_database(word));
        for name in names.filter(|name| *name != secret) {
            let bare = format!("{word}://h1,h2/x?{name}=v&prefix=a:");
            assert_eq!(without_secrets(&bare), bare);
            if scheme != Scheme::Memory {
                let url = format!("{word}://h1,h2/x?{secret}=hunter2&{name}=v&prefix=a:");
                assert_eq!(without_secrets(&url), bare);
            }
        }
    }
}
