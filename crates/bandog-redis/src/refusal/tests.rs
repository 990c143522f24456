use super::*;

#[test]
fn every_refusal_has_a_meaning() {
    for (text, kind, maybe_applied) in [
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Denied, false),
        ("NOPERM this user has no permissions to run the 'evalsha' command", Denied, false),
        ("NOAUTH Authentication required.", Denied, false),
        ("WRONGPASS invalid username-password pair or user is disabled.", Denied, false),
        ("ERR The user executing the script can't run this command or subcommand script: 6f", Denied, false),
        ("ERR unknown command 'EVALSHA', with args beginning with: ", Denied, false),
        ("CORRUPT the fencing token", Corrupt, false),
        ("NOSCRIPT No matching script. Please use EVAL.", Unavailable, false),
        ("READONLY You can't write against a read only replica. script: 6f, on @user_script:9.", Unavailable, false),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable, false),
        ("LOADING Redis is loading the dataset in memory", Unavailable, false),
        ("MOVED 3999 127.0.0.1:6381", Unsupported, false),
        ("CROSSSLOT Keys in request don't hash to the same slot", Unsupported, false),
        ("DENIED Redis is running in protected mode because", Denied, false),
        ("ERR no upstream host", Unavailable, true),
        ("UPSTREAM gone", Unavailable, true),
    ] {
        let error = refused(&reply(text));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, maybe_applied), "{text}");
    }
}

#[test]
fn what_fails_inside_a_script_of_redis_6_means_the_same() {
    let script = "ERR Error running script (call to f_6f): @user_script:14: @user_script: 14: ";
    for (text, kind) in [
        ("-WRONGTYPE Operation against a key holding the wrong kind of value", Denied),
        ("-READONLY You can't write against a read only replica.", Unavailable),
        ("The user executing the script can't run this command or subcommand", Denied),
    ] {
        let error = refused(&reply(&format!("{script}{text}")));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, false), "{text}");
    }
}

#[test]
fn a_handshake_that_was_refused_surely_did_nothing() {
    for (text, kind) in [("ERR max number of clients reached", Unavailable), ("WRONGPASS no", Denied)] {
        let error = turned_away("redis://h:6379/0", &reply(text));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, false), "{text}");
        assert!(error.to_string().starts_with("redis://h:6379/0: Redis "), "{error}");
    }
}

fn reply(text: &str) -> ServerError {
    let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    let redis::Value::ServerError(error) = value else { panic!("{value:?}") };
    error
}
