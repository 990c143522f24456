//! The state of one latch, and the rules by which operations change it.

use std::{fmt, str::FromStr};

use crate::{Error, ErrorKind, LatchAction, LatchAnswer, LatchOperation, Result};

/// The state of one latch. Its text has the count in the first line, and then one line for each operation that is
/// remembered: the time until which it is remembered, 1 or 0 for whether it has changed the latch, and its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LatchState {
    pub(super) count: u64,
    operations: Vec<PastOperation>,
}

/// An operation that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PastOperation {
    id: String,
    /// The store's time until which the operation is remembered, in milliseconds since 1970.
    until: u64,
    has_changed: bool,
}

impl PastOperation {
    /// Whether the client of this later operation no longer repeats the past one.
    fn is_before(&self, later: &LatchOperation) -> bool {
        let (client, number) = self.id.split_once(':').unwrap_or_default();
        let number = number.parse::<u64>().ok().filter(|number| *number < later.forget_before);
        number.is_some() && client == later.id.client.to_string()
    }
}

impl LatchState {
    /// Applies an operation at the store's time `now`, in milliseconds since 1970, and forgets operations that no
    /// client repeats. If the operation was applied before, returns `Err` with its answer, and changes nothing.
    pub(super) fn apply(&mut self, operation: &LatchOperation, now: u64) -> Result<LatchAnswer, LatchAnswer> {
        let id = operation.id.to_string();
        if let Some(past) = self.operations.iter().find(|past| past.id == id) {
            return Err(LatchAnswer { has_changed: past.has_changed, count: self.count });
        }
        let exists = self.count > 0;
        let (has_changed, count) = match operation.action {
            LatchAction::Set(count) if !exists => (true, count.get()),
            LatchAction::Set(_) => (false, self.count),
            LatchAction::CountDown(by) => (exists, self.count.saturating_sub(by.get())),
            LatchAction::Delete => (exists, 0),
        };
        self.count = count;
        self.operations.retain(|past| past.until > now && !past.is_before(operation));
        let remember = u64::try_from(operation.remember.as_millis()).unwrap_or(u64::MAX);
        self.operations.push(PastOperation { id, until: now.saturating_add(remember), has_changed });
        Ok(LatchAnswer { has_changed, count })
    }

    /// Whether the latch is open, and no operation is remembered at this time.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.count == 0 && self.operations.iter().all(|past| past.until <= now)
    }
}

impl fmt::Display for LatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        self.operations.iter().try_for_each(|PastOperation { id, until, has_changed }| {
            write!(f, "\n{until} {} {id}", u8::from(*has_changed))
        })
    }
}

impl FromStr for LatchState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let corrupt = || Error::new(ErrorKind::Corrupt, format!("the record of the latch is not valid: {text:?}"));
        let mut lines = text.split('\n');
        let count = lines.next().and_then(|count| count.parse().ok()).ok_or_else(corrupt)?;
        let past = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let until = words.next()?.parse().ok()?;
            let has_changed = match words.next()? {
                "0" => false,
                "1" => true,
                _ => return None,
            };
            Some(PastOperation { id: words.next()?.to_owned(), until, has_changed })
        };
        let operations = lines.map(past).collect::<Option<_>>().ok_or_else(corrupt)?;
        Ok(Self { count, operations })
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU64, time::Duration};

    use super::*;
    use crate::{ClientId, Key, OperationId};

    fn operation(number: u64, action: LatchAction) -> LatchOperation {
        let id = OperationId { client: ClientId::random(), number };
        LatchOperation {
            key: Key::new("start").unwrap(),
            id,
            action,
            remember: Duration::from_millis(100),
            forget_before: 0,
        }
    }

    fn number(number: u64) -> NonZeroU64 {
        NonZeroU64::new(number).unwrap()
    }

    #[test]
    fn an_operation_is_applied_once_while_it_is_remembered() {
        let mut state = LatchState::default();
        let set = operation(1, LatchAction::Set(number(3)));
        let down = operation(2, LatchAction::CountDown(number(2)));
        assert_eq!(state.apply(&set, 1000), Ok(LatchAnswer { has_changed: true, count: 3 }));
        assert_eq!(state.apply(&down, 1001), Ok(LatchAnswer { has_changed: true, count: 1 }));
        assert_eq!(state.apply(&set, 1050), Err(LatchAnswer { has_changed: true, count: 1 }));
        assert_eq!(state.apply(&down, 1100), Err(LatchAnswer { has_changed: true, count: 1 }));
        let last = operation(3, LatchAction::CountDown(number(u64::MAX)));
        assert_eq!(state.apply(&last, 1200), Ok(LatchAnswer { has_changed: true, count: 0 }));
        assert_eq!(state.operations.len(), 1, "expired operations are forgotten");
        assert!(!state.is_over(1299) && state.is_over(1300));
        // An open latch is as a latch that does not exist.
        let late = operation(4, LatchAction::CountDown(number(1)));
        assert_eq!(state.apply(&late, 1201), Ok(LatchAnswer { has_changed: false, count: 0 }));
        assert!(!state.apply(&operation(5, LatchAction::Delete), 1201).unwrap().has_changed);
        assert_eq!(state.apply(&operation(6, LatchAction::Set(number(1))), 1201).unwrap().count, 1);
        assert_eq!(state.apply(&operation(7, LatchAction::Set(number(9))), 1201).unwrap().count, 1);
        assert_eq!(state.apply(&late, 1202), Err(LatchAnswer { has_changed: false, count: 1 }));
    }

    #[test]
    fn operations_that_can_reach_the_store_no_more_are_forgotten() {
        let (one, other) = (ClientId::random(), ClientId::random());
        let operation = |client, number, forget_before| LatchOperation {
            id: OperationId { client, number },
            forget_before,
            ..operation(0, LatchAction::Set(NonZeroU64::MIN))
        };
        let mut state = LatchState::default();
        for (client, number) in [(one, 3), (one, 10), (other, 3), (one, 4)] {
            state.apply(&operation(client, number, 0), 1000).unwrap();
        }
        let known =
            |state: &LatchState| -> Vec<String> { state.operations.iter().map(|past| past.id.clone()).collect() };
        state.apply(&operation(one, 11, 4), 1000).unwrap();
        assert_eq!(known(&state), [format!("{one}:10"), format!("{other}:3"), format!("{one}:4"), format!("{one}:11")]);
        state.apply(&operation(one, 12, 12), 1000).unwrap();
        assert_eq!(known(&state), [format!("{other}:3"), format!("{one}:12")]);
        // A repetition changes nothing, whatever the store may forget.
        let before = state.clone();
        assert!(state.apply(&operation(one, 12, 13), 1000).is_err());
        assert_eq!(state, before);
    }

    #[test]
    fn the_text_of_a_state_is_read_back() {
        let mut state = LatchState::default();
        assert_eq!(state.to_string(), "0");
        let set = operation(1, LatchAction::Set(number(3)));
        let _ = state.apply(&set, 1000);
        assert_eq!(state.to_string(), format!("3\n1100 1 {}", set.id));
        let _ = state.apply(&operation(2, LatchAction::Set(number(7))), 1000);
        assert_eq!(state.to_string().parse::<LatchState>().unwrap(), state);
        for wrong in ["", "x", "-1", "3\n", "3\n1", "3\n1 2 a", "3\n1 1"] {
            assert_eq!(wrong.parse::<LatchState>().unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
    }
}
