//! A command that applies an operation.

use bandog_codec::number;
use bandog_core::{Error, Result};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, ToRedisArgs};

/// A command, or a call of a script.
#[derive(Clone)]
pub(crate) enum Command {
    Plain(Cmd),
    Script { script: &'static Script, keys: Vec<String>, args: Vec<Vec<u8>> },
}

impl Command {
    /// A command with this name and this key.
    pub(crate) fn of(name: &str, key: &str) -> Self {
        let mut cmd = redis::cmd(name);
        cmd.arg(key);
        Self::Plain(cmd)
    }

    /// A call of a script.
    pub(crate) fn script(script: &'static Script, keys: impl IntoIterator<Item = String>) -> Self {
        Self::Script { script, keys: keys.into_iter().collect(), args: Vec::new() }
    }

    /// Adds keys to the call of a script.
    pub(crate) fn with_keys(mut self, further: impl IntoIterator<Item = String>) -> Self {
        if let Self::Script { keys, .. } = &mut self {
            keys.extend(further);
        }
        self
    }

    /// The number of keys of the call of a script.
    pub(crate) fn key_count(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Script { keys, .. } => keys.len(),
        }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        match &mut self {
            Self::Plain(cmd) => _ = cmd.arg(arg),
            Self::Script { args, .. } => args.extend(arg.to_redis_args()),
        }
        self
    }

    /// Adds arguments.
    pub(crate) fn args<T: ToRedisArgs>(self, args: impl IntoIterator<Item = T>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Adds `1` and the bytes, or `0` and nothing.
    pub(crate) fn optional(self, bytes: Option<&Vec<u8>>) -> Self {
        self.arg(u8::from(bytes.is_some())).arg(bytes.map_or(&[][..], Vec::as_slice))
    }

    /// The command in this form of scripts.
    pub(crate) fn in_form(&self, form: ScriptForm) -> Cmd {
        match self {
            Self::Plain(cmd) => cmd.clone(),
            Self::Script { script, keys, args } => {
                let size = keys.iter().map(String::len).sum::<usize>() + args.iter().map(Vec::len).sum::<usize>();
                let mut cmd = script.call(form, keys.len(), keys.len() + args.len(), size);
                cmd.arg(keys).arg(args);
                cmd
            }
        }
    }
}

/// The text of a score.
pub(crate) fn score(score: f64) -> Result<String> {
    number::score(score).ok_or_else(|| Error::misused("a score must not be NaN"))
}
