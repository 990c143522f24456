//! The commands of live objects.

use bandog_codec::hash;
use bandog_core::{
    Error, Result,
    structures::{Bytes, LiveChange, LiveIndex, LiveIndexKind, LiveOp},
};

use crate::{
    command::{Command, score},
    names,
    scripts::SCRIPTS,
};

/// The script that changes a live object and its indexes.
pub(crate) fn command(name: &str, LiveOp { member, change, indexes }: &LiveOp) -> Result<Command> {
    let verb = match change {
        LiveChange::Insert(_) => "insert",
        LiveChange::Write { .. } => "write",
        LiveChange::Add { .. } => "add",
        LiveChange::Delete => "delete",
    };
    let keys = std::iter::once(name).chain(indexes.iter().map(|index| index.key.as_str())).map(str::to_owned);
    let call = Command::script(&SCRIPTS.live, keys).arg(verb).arg(member).arg(indexes.len());
    let call = indexes.iter().try_fold(call, |call, of| index(call, of, change))?;
    let fields = |call: Command, fields: &[(Bytes, Option<Bytes>)]| {
        fields.iter().fold(call, |call, (field, bytes)| call.arg(field).optional(bytes.as_ref()))
    };
    Ok(match change {
        LiveChange::Insert(fields) => call.args(fields.iter().flat_map(|(field, value)| [field, value])),
        LiveChange::Write { expected, fields: written } => fields(fields(call.arg(expected.len()), expected), written),
        LiveChange::Add { field, by, min, max } => call.arg(field).arg(*by).arg(*min).arg(*max),
        LiveChange::Delete => call,
    })
}

fn index(call: Command, LiveIndex { key, field, kind }: &LiveIndex, change: &LiveChange) -> Result<Command> {
    Ok(match kind {
        LiveIndexKind::Numbers(None) => call.arg("number").arg(field).args(["0", ""]),
        LiveIndexKind::Numbers(Some(number)) => call.arg("number").arg(field).arg("1").arg(score(*number)?),
        LiveIndexKind::Values => {
            let new = match change {
                LiveChange::Insert(fields) => fields.iter().find(|(of, _)| of == field).map(|(_, value)| value),
                LiveChange::Write { fields, .. } => {
                    fields.iter().find(|(of, _)| of == field).and_then(|(_, value)| value.as_ref())
                }
                LiveChange::Add { .. } => return Err(Error::misused("an index of values has no sums")),
                LiveChange::Delete => None,
            };
            let name = new.map(|value| hash::entry_name(value)).unwrap_or_default();
            call.arg("value").arg(field).arg(names::suffixed(key.as_str(), "")).arg(name)
        }
    })
}
