//! The answer to a call, and the commands that are sent a second time because of the form of their scripts.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bandog_core::Result;
use redis::{Pipeline, Value};

use super::live::{LiveConnection, are_denied};
use crate::{refusal, script::ScriptForm};

/// The answer to a call.
pub(super) struct Sent {
    pub(super) live: Arc<LiveConnection>,
    /// The form in which the call has sent its scripts.
    pub(super) form: ScriptForm,
    pub(super) values: Vec<Value>,
}

impl Sent {
    /// Whether the server refuses a command because of the form of its script.
    pub(super) fn is_refused(&self) -> bool {
        self.values
            .iter()
            .any(|value| refusal::is_no_script(value) || refusal::is_command_refused(value, self.form.verb()))
    }

    /// Sends the refused commands again, in the form that the server accepts. They have not been applied.
    ///
    /// Lost scripts are loaded by the same request. So a later call cannot send between the two, and no time passes.
    pub(super) async fn send_again(
        mut self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Vec<Value>> {
        if self.form.is_text() {
            // If the user has no right for any form, the next call tries the other form, because the rights can change.
            self.live.sends_text.store(false, Ordering::Relaxed);
            return Ok(self.values);
        }
        let sharded = self.form.is_sharded();
        let (hash, text) = (ScriptForm::hash(sharded), ScriptForm::text(sharded));
        let is_hash_refused = |value: &Value| refusal::is_command_refused(value, hash.verb());
        let mut needs_text = self.values.iter().any(is_hash_refused);
        if !needs_text {
            let loads = self.send_refused(&self.live.load_scripts(), &pack(hash), deadline).await?;
            needs_text = are_denied(&loads);
        }
        if needs_text {
            self.live.sends_text.store(true, Ordering::Relaxed);
            self.send_refused(&Pipeline::new(), &pack(text), deadline).await?;
            if self.values.iter().any(|value| refusal::is_command_refused(value, text.verb())) {
                self.live.sends_text.store(false, Ordering::Relaxed);
            }
        }
        Ok(self.values)
    }

    /// Sends the commands before, and then the refused ones of these commands. Returns the answers to the former. If no
    /// command is refused or no time is left, sends nothing: then it is certain that they have not been applied.
    async fn send_refused(&mut self, before: &Pipeline, commands: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let is_refused =
            |value: &Value| refusal::is_no_script(value) || refusal::is_command_refused(value, self.form.verb());
        let positions: Vec<usize> = (0..self.values.len()).filter(|at| is_refused(&self.values[*at])).collect();
        if positions.is_empty() || Instant::now() >= deadline {
            return Ok(Vec::new());
        }
        let (mut pipe, before) = (before.clone(), before.len());
        let commands: Vec<_> = commands.cmd_iter().collect();
        positions.iter().for_each(|at| _ = pipe.add_command(commands[*at].clone()));
        let mut answers = self.live.send(&pipe, deadline).await?;
        for (at, value) in positions.into_iter().zip(answers.split_off(before)) {
            self.values[at] = value;
        }
        Ok(answers)
    }
}
