//! The answer to a call, and the commands that are sent a second time because of the form of their scripts.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bandog_core::Result;
use redis::{Pipeline, Value};
use tokio::time::timeout_at;

use super::{LiveConnection, load};
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
    pub(super) async fn send_again(
        self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Vec<Value>> {
        let Self { live, form, mut values } = self;
        let refused = |value: &Value| refusal::is_command_refused(value, form.verb());
        if values.iter().any(refused) {
            // If the user has no right for any form, the next call tries the other form, because the rights can change.
            live.sends_text.store(form == ScriptForm::Hash, Ordering::Relaxed);
        } else {
            // After a timeout, the next call gets NOSCRIPT and loads the scripts again.
            let _ = timeout_at(deadline.into(), load(live.clone())).await;
        }
        if form == ScriptForm::Text {
            return Ok(values);
        }
        let positions: Vec<usize> =
            (0..values.len()).filter(|at| refusal::is_no_script(&values[*at]) || refused(&values[*at])).collect();
        let form = live.script_form();
        let commands = pack(form);
        let mut pipe = Pipeline::with_capacity(positions.len());
        let commands: Vec<_> = commands.cmd_iter().collect();
        positions.iter().for_each(|at| _ = pipe.add_command(commands[*at].clone()));
        for (at, value) in positions.into_iter().zip(live.send(&pipe, deadline).await?) {
            if form == ScriptForm::Text && refusal::is_command_refused(&value, form.verb()) {
                live.sends_text.store(false, Ordering::Relaxed);
            }
            values[at] = value;
        }
        Ok(values)
    }
}
