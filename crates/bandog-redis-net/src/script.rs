//! Lua scripts, and the forms in which they are sent.

use std::sync::{Arc, OnceLock};

use redis::{Cmd, Pipeline};

/// The form in which a call sends its scripts to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptForm {
    /// The hash of the script, which was loaded before.
    Hash,
    /// The text of the script. It is sent if the user has no right to load scripts, or to run them by their hash.
    Text,
    /// The hash of the script that publishes its messages with SPUBLISH.
    ShardedHash,
    /// The text of the script that publishes its messages with SPUBLISH.
    ShardedText,
}

impl ScriptForm {
    /// The form that sends the hash. `sharded`: messages are published with SPUBLISH.
    pub(crate) fn hash(sharded: bool) -> Self {
        if sharded { Self::ShardedHash } else { Self::Hash }
    }

    /// The form that sends the text. `sharded`: as in [`Self::hash`].
    pub(crate) fn text(sharded: bool) -> Self {
        if sharded { Self::ShardedText } else { Self::Text }
    }

    /// The command that runs a script in this form.
    pub(crate) fn verb(self) -> &'static str {
        if self.is_text() { "EVAL" } else { "EVALSHA" }
    }

    /// Whether the text is sent, and not the hash.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::ShardedText)
    }

    /// Whether messages are published with SPUBLISH.
    pub(crate) fn is_sharded(self) -> bool {
        matches!(self, Self::ShardedHash | Self::ShardedText)
    }
}

/// A Lua script.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    /// The SHA-1 hash of the text. EVALSHA calls the script by this hash.
    hash: String,
    /// The text and the hash of the script that publishes its messages with SPUBLISH.
    sharded: OnceLock<(String, String)>,
}

impl Script {
    /// A script with this text. It publishes with `redis.call('publish', …)` or `redis.pcall('publish', …)`, in this
    /// spelling: on a cluster with sharded channels, `'publish'` is replaced.
    pub fn new(text: &'static str) -> Self {
        Self { text, hash: hash(text), sharded: OnceLock::new() }
    }

    /// The text of the script. `sharded`: it publishes its messages with SPUBLISH.
    pub fn text(&self, sharded: bool) -> &str {
        if sharded { &self.sharded().0 } else { self.text }
    }

    fn sharded(&self) -> &(String, String) {
        self.sharded.get_or_init(|| {
            let text = self.text.replace("'publish'", "'spublish'");
            let hash = hash(&text);
            (text, hash)
        })
    }

    /// The beginning of a call of this script: the verb, the script and the number of keys. The caller adds the keys
    /// and the arguments, and the command has capacity for them. `keys` is the number of keys, `args` is the number of
    /// keys and arguments together, and `size` is their approximate size in bytes.
    pub fn call(&self, form: ScriptForm, keys: usize, args: usize, size: usize) -> Cmd {
        let verb = form.verb();
        let script = match form {
            ScriptForm::Hash => self.hash.as_str(),
            ScriptForm::ShardedHash => self.sharded().1.as_str(),
            ScriptForm::Text | ScriptForm::ShardedText => self.text(form.is_sharded()),
        };
        let mut cmd = Cmd::with_capacity(3 + args, verb.len() + script.len() + 4 + size);
        cmd.arg(verb).arg(script).arg(keys);
        cmd
    }
}

/// The SHA-1 hash of a script.
fn hash(text: &str) -> String {
    redis::Script::new(text).get_hash().into()
}

/// The scripts that each new connection for commands loads. Copies are cheap.
#[derive(Debug, Clone, Default)]
pub struct Scripts(Arc<[&'static Script]>);

impl Scripts {
    /// Whether there is no script.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The commands that load all scripts.
    pub fn load(&self, sharded: bool) -> Pipeline {
        let mut pipe = Pipeline::with_capacity(self.0.len());
        for script in &*self.0 {
            pipe.cmd("SCRIPT").arg("LOAD").arg(script.text(sharded));
        }
        pipe
    }
}

impl FromIterator<&'static Script> for Scripts {
    fn from_iter<I: IntoIterator<Item = &'static Script>>(scripts: I) -> Self {
        Self(scripts.into_iter().collect())
    }
}
