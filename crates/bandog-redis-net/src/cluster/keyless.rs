//! Commands without a key, such as PING. Any node can run them, so a node that does not answer fails none of them.

use std::{sync::Arc, time::Instant};

use bandog_core::{Error, Result};
use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::Value;
use tokio::time::{sleep, timeout_at};

use super::{
    calls::{Call, FIRST_PAUSE, MAX_PAUSE},
    discovery::stagger,
    redirection::Redirection,
    shared::SharedCluster,
};
use crate::{refusal, replies::Replies};

impl SharedCluster {
    /// Sends these commands, none of which has a key, to the known nodes. The first good answer counts. A node is asked
    /// only if the nodes before it have not answered soon, so several nodes may run the commands.
    pub(super) async fn call_any(self: &Arc<Self>, call: &Call<'_>) -> Replies {
        // A call that ends at its deadline has a better error than this limit.
        let limit = call.deadline + MAX_PAUSE;
        let late = |_| Err(Error::unavailable("no node of the cluster answered in time").ambiguous());
        match timeout_at(limit.into(), self.ask_until_answered(call)).await.unwrap_or_else(late) {
            Ok(values) => Replies::new(values.into_iter().map(Ok)),
            Err(error) => Replies::new(call.commands().map(|_| Err(error.clone()))),
        }
    }

    /// Asks the nodes until one of them answers. If no node can run the commands yet, repeats this until the deadline.
    async fn ask_until_answered(self: &Arc<Self>, call: &Call<'_>) -> Result<Vec<Value>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let (mut fault, mut is_passing) = (Error::unavailable("no node of the cluster is known"), false);
            let asked = self.map().by_readiness().into_iter().enumerate().map(async |(number, node)| {
                stagger(number, call.deadline).await;
                (call.send_whole(&node).await, node)
            });
            let mut asked: FuturesUnordered<_> = asked.collect();
            while let Some((answer, node)) = asked.next().await {
                fault = match answer {
                    Ok(values) => match values.iter().find(|value| Redirection::read(value, &node.host).is_some()) {
                        None => return Ok(values),
                        Some(refused) => {
                            is_passing = true;
                            refusal::not_served(refused)
                        }
                    },
                    // A repetition does not change such an error, so it says more than others.
                    Err(_) if !fault.is_retryable() => fault,
                    Err(error) => error,
                };
            }
            self.refresh_soon();
            if !is_passing || Instant::now() + pause >= call.deadline {
                return Err(fault);
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}
