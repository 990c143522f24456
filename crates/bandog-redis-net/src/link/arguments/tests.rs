use super::*;
use crate::refusal;

fn command(length: usize) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg("k").arg(vec![b'x'; length]);
    command
}

#[test]
fn a_command_that_may_be_too_long_is_refused_or_sent_alone() {
    let lengths = [1, 2 << 20, 3, 4, 3 << 20, 4 << 20, 5];
    let ways = |known: Known| -> Vec<Way> { lengths.iter().map(|length| known.way(&command(*length))).collect() };
    assert_eq!(
        parts(&ways(Known::Accepted(ALWAYS_ACCEPTED))),
        [vec![0], vec![1], vec![2, 3], vec![4], vec![5], vec![6]]
    );
    assert_eq!(parts(&ways(Known::Accepted(3 << 20))), [vec![0, 1, 2, 3, 4], vec![5], vec![6]]);
    let limited = ways(Known::Limit(3 << 20, MAX_LENGTH));
    assert_eq!(parts(&limited), [vec![0, 1, 2, 3, 4, 6]]);
    let refused: Vec<_> = limited.iter().filter_map(Way::reply).collect();
    let Some(Value::ServerError(error)) = refused.first() else { panic!("{refused:?}") };
    let error = refusal::refused(error);
    assert_eq!((refused.len(), error.kind()), (1, bandog_core::ErrorKind::Misused));
    assert!(error.to_string().contains("4194304 bytes") && error.to_string().contains(MAX_LENGTH), "{error}");
}

#[test]
fn asking_stays_directly_before_its_command() {
    let (asking, long, short) = (redis::cmd("ASKING"), command(2 << 20), command(1));
    let commands = [&asking, &short, &asking, &long, &asking, &short];
    assert_eq!(parts(&Known::Accepted(ALWAYS_ACCEPTED).ways(&commands)), [vec![0, 1], vec![2, 3], vec![4, 5]]);
    assert_eq!(parts(&Known::Limit(1 << 20, MAX_LENGTH).ways(&commands)), [vec![0, 1, 4, 5]]);
}

#[test]
fn usual_commands_need_no_check() {
    let pipe = |command: Cmd| {
        let mut pipe = Pipeline::new();
        pipe.add_command(command);
        pipe
    };
    assert!(!may_be_too_long(&pipe(command(ALWAYS_ACCEPTED))));
    assert!(may_be_too_long(&pipe(command(ALWAYS_ACCEPTED + 1))));
    let mut many = redis::cmd("SADD");
    (0..MAX_NUMBER).for_each(|_| _ = many.arg("x"));
    assert!(may_be_too_long(&pipe(many)));
}

#[test]
fn settings_are_read_from_both_protocols() {
    let texts = || [Value::BulkString(MAX_LENGTH.into()), Value::BulkString("1048576".into())];
    let [name, value] = texts();
    assert_eq!(setting(&Value::Map(vec![(name, value)])), Some(1 << 20));
    assert_eq!(setting(&Value::Array(texts().to_vec())), Some(1 << 20));
    assert_eq!(setting(&Value::Array(Vec::new())), None, "a service that has no such setting");
    assert_eq!(setting(&error("NOPERM no permissions")), None);
}
