//! The slot of a command.

use redis::{Arg, Cmd};

use crate::slots;

/// The slot of the first key of this command. None if the command has no key.
///
/// The commands of this crate have their first key after the name of the command. A script has it after the number of
/// its keys.
pub(super) fn slot_of(command: &Cmd) -> Option<u16> {
    let mut parts = command.args_iter().map(|part| match part {
        Arg::Simple(part) => part,
        _ => &[],
    });
    let name = parts.next()?.to_ascii_uppercase();
    match name.as_slice() {
        b"EVALSHA" | b"EVAL" => {
            let keys = parts.nth(1)?;
            (keys != b"0").then(|| parts.next()).flatten().map(slots::slot)
        }
        b"PING" | b"TIME" | b"INFO" | b"CONFIG" | b"SCAN" | b"SCRIPT" | b"ACL" | b"CLUSTER" | b"PUBSUB" => None,
        _ => parts.next().map(slots::slot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_decides() {
        let slot = |parts: &[&str]| {
            let mut command = redis::cmd(parts[0]);
            parts[1..].iter().for_each(|part| _ = command.arg(part));
            slot_of(&command)
        };
        let foo = Some(12182);
        assert_eq!(slot(&["GET", "foo"]), foo);
        assert_eq!(slot(&["EVALSHA", "0123", "2", "foo", "bar"]), foo);
        assert_eq!(slot(&["EVAL", "return 1", "0"]), None);
        assert_eq!(slot(&["EVALSHA", "0123", "0", "foo"]), None);
        for parts in [&["PING"][..], &["SCAN", "0"], &["ACL", "DRYRUN", "user", "GET", "foo"]] {
            assert_eq!(slot(parts), None, "{parts:?}");
        }
    }
}
