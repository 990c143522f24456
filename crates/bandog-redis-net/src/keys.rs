//! The key that decides which node of a cluster runs a command.

use redis::{Arg, Cmd};

use crate::slots;

/// Which keys decide where the commands of a call go on a cluster. A command without a key goes to the node of the first
/// key of the call.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// Each command runs a script, whose first key decides, or it has no key.
    OfScripts,
    /// The first argument of each command is its key.
    FirstArguments,
    /// No command has a key, so any node can run them all.
    None,
    /// The key of each command.
    Each(&'a [Option<&'a str>]),
}

impl Keys<'_> {
    /// The slot of the command at this position.
    pub(crate) fn slot_of(self, at: usize, command: &Cmd) -> Option<u16> {
        match self {
            Self::OfScripts => match argument(command, 0)?.to_ascii_uppercase().as_slice() {
                b"EVALSHA" | b"EVAL" if argument(command, 2)? != b"0" => argument(command, 3).map(slots::slot),
                _ => None,
            },
            Self::FirstArguments => argument(command, 1).map(slots::slot),
            Self::None => None,
            Self::Each(keys) => keys.get(at).copied().flatten().map(|key| slots::slot(key.as_bytes())),
        }
    }
}

/// The part of a command at this position. The name of the command has the position 0.
fn argument(command: &Cmd, at: usize) -> Option<&[u8]> {
    match command.args_iter().nth(at)? {
        Arg::Simple(part) => Some(part),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_call_decide() {
        let slot = |keys: Keys<'_>, parts: &[&str]| {
            let mut command = redis::cmd(parts[0]);
            parts[1..].iter().for_each(|part| _ = command.arg(part));
            keys.slot_of(0, &command)
        };
        let foo = Some(12182);
        assert_eq!(slot(Keys::FirstArguments, &["GET", "foo"]), foo);
        assert_eq!(slot(Keys::OfScripts, &["EVALSHA", "0123", "2", "foo", "bar"]), foo);
        for keyless in [&["EVAL", "return 1", "0"][..], &["EVALSHA", "0123", "0", "foo"], &["TIME"]] {
            assert_eq!(slot(Keys::OfScripts, keyless), None, "{keyless:?}");
        }
        assert_eq!(slot(Keys::None, &["PUBSUB", "SHARDNUMSUB", "foo"]), None);
        // The first argument of this command is no key.
        let read = ["XREAD", "COUNT", "10", "STREAMS", "foo", "0"];
        assert_eq!(slot(Keys::Each(&[Some("foo")]), &read), foo);
        assert_eq!([slot(Keys::Each(&[None]), &read), slot(Keys::Each(&[]), &read)], [None; 2]);
    }
}
