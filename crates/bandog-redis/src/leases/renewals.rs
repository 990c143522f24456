//! Renewals: the calls of scripts that renew claims, and their replies.

use std::time::Instant;

use bandog_core::{Claim, Result};
use bandog_redis_net::Keys;
use redis::Value;

use super::Redis;
use crate::{
    answers::{Renewed, not_renewed, renewal},
    refusal, script,
};

impl Redis {
    /// Renews the claims. Each call of a script renews at most `max_per_call` claims.
    pub(super) async fn renew_in(
        &self,
        claims: &[Claim],
        max_per_call: usize,
        deadline: Instant,
    ) -> Vec<Result<Renewed>> {
        let mut renewals: Vec<Option<Result<Renewed>>> = claims.iter().map(|_| None).collect();
        let format = self.format;
        let mut groups = script::renewal_groups(claims, max_per_call, format);
        while !groups.is_empty() {
            let pack = |form| script::renewals(claims, &groups, format, form);
            let replies = match self.servers.call_scripts(deadline, Keys::OfScripts, pack).await {
                Ok(replies) => replies,
                Err(error) => {
                    let not_renewed = |claim| Err(not_renewed(claim, error.clone()));
                    let renewals = claims.iter().zip(renewals);
                    return renewals.map(|(claim, renewal)| renewal.unwrap_or_else(|| not_renewed(claim))).collect();
                }
            };
            let mut again = Vec::new();
            for (group, reply) in groups.into_iter().zip(replies) {
                let value = match reply {
                    Ok(value) => value,
                    Err(error) => {
                        for position in group {
                            renewals[position] = Some(Err(not_renewed(&claims[position], error.clone())));
                        }
                        continue;
                    }
                };
                match value {
                    Value::Array(replies) if replies.len() == group.len() => {
                        for (position, reply) in group.into_iter().zip(replies) {
                            renewals[position] = Some(renewal(&claims[position], reply));
                        }
                    }
                    // If the user lacks the right for one key, Redis refuses the whole call before it runs. So each
                    // claim is sent again, in its own call.
                    Value::ServerError(error) if group.len() > 1 && refusal::is_out_of_reach(&error) => {
                        again.extend(group.into_iter().map(|position| vec![position]));
                    }
                    value => {
                        for position in group {
                            renewals[position] = Some(renewal(&claims[position], value.clone()));
                        }
                    }
                }
            }
            groups = again;
        }
        let missing = |claim| Err(not_renewed(claim, refusal::unexpected_reply(&Value::Nil)));
        let renewals = claims.iter().zip(renewals);
        renewals.map(|(claim, renewal)| renewal.unwrap_or_else(|| missing(claim))).collect()
    }
}
