//! Calls that take several locks at once. In the history, each of the locks has a call of its own.

use std::time::Duration;

use tokio::time;

use super::{context::Context, task::Task, traffic::CallParams};
use crate::{
    calls::{Context as _, Outcome},
    history::CallId,
    locks::history::{Name, Op, Verb},
    plan::{Kind, LONG, NAMES, TIMEOUT},
};

impl Task {
    /// Takes two or three locks at once, and runs a short section if the call gets all of them.
    pub(super) async fn call_for_several(&mut self) -> Outcome {
        let params = self.params_of_several();
        let wait = Duration::from_millis(self.random.u64(..250));
        let calls: Vec<_> = params.iter().map(|params| self.record_begin(params, Verb::All, wait)).collect();
        let locks = bandog::all(params.iter().map(|params| params.handle.any()));
        let guard = match locks.try_lock_for(wait).await {
            Ok(Some(guard)) => guard,
            Ok(None) => return self.all_end(&params, &calls, |_| Outcome::No),
            Err(error) => return self.all_end(&params, &calls, |name| Context::failed(name, &error)),
        };
        let members = || guard.guards().iter().zip(&params).zip(&calls);
        for ((guard, params), call) in members() {
            self.context.begin(params.name, *call, guard);
        }
        match self.random.u8(..10) {
            0 => time::sleep(Duration::from_millis(self.random.u64(..3))).await,
            _ => tokio::task::yield_now().await,
        }
        let mut is_held = true;
        for ((guard, params), call) in members() {
            is_held &= self.context.end(params.name, *call, guard, false);
        }
        if self.random.bool() {
            drop(guard);
            return if is_held { Outcome::Ok } else { Outcome::Lost };
        }
        let releases = params.iter().zip(&calls);
        let releases: Vec<_> =
            releases.map(|(params, of)| self.begin(params.name, Op::Release { of: *of }, TIMEOUT)).collect();
        let answer = guard.release().await;
        self.all_end(&params, &releases, |name| match &answer {
            Ok(()) => Outcome::Ok,
            Err(error) => Context::failed(name, error),
        })
    }

    /// The parameters of two or three locks with different names. No other task waits for a long time for such a call,
    /// because names whose locks are held for a long time are left out.
    fn params_of_several(&mut self) -> Vec<CallParams> {
        let number = self.random.usize(2..4);
        let names = self.random.choose_multiple(0..NAMES - LONG, number);
        names
            .into_iter()
            .map(|name| self.params_of(name, Kind::of_name(name, &self.context.args.kinds), true))
            .collect()
    }

    /// Records the end of each of the calls. Returns the outcome of the first one.
    fn all_end(&self, params: &[CallParams], calls: &[CallId], outcome: impl Fn(Name) -> Outcome) -> Outcome {
        for (params, call) in params.iter().zip(calls) {
            self.context.recorder.end(*call, outcome(Name(params.name)));
        }
        params.first().map_or(Outcome::No, |params| outcome(Name(params.name)))
    }
}
