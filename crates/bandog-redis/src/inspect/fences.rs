//! The fences of locks whose keys are at two nodes of a cluster.
//!
//! While a slot moves, the node that has the key of a lock may not have the key with its fence. The script that shows the
//! lock reads the fence as a missing key. A command with one key is redirected to the node that has the key.

use bandog_core::{ClientId, Fence, Holder, Kind, Row};
use bandog_redis_net::{Keys, reply::text};
use redis::Pipeline;

use super::rows::row;
use crate::{
    leases::Redis,
    names::{HELD, Satellite, TokenKey},
};

impl Redis {
    /// Adds the fences that the holders of these locks have, and that the nodes with the locks did not have. A fence that
    /// cannot be read, for example without the right for its key, is left out.
    pub(crate) async fn add_fences(&self, rows: Vec<&mut Row>) {
        if !self.format.in_cluster {
            return;
        }
        let mut without: Vec<_> = rows.into_iter().filter(|row| row.holders.iter().any(lacks_fence)).collect();
        if without.is_empty() {
            return;
        }
        let mut pipe = Pipeline::new();
        for row in &without {
            let name = self.lock_name(&row.name);
            for holder in row.holders.iter().filter(|holder| lacks_fence(holder)) {
                match holder.kind {
                    // The hold of these kinds is exclusive, so the token is its fence.
                    Some(Kind::Mutex | Kind::Fair | Kind::Write) | None => {
                        pipe.cmd("GET").arg(TokenKey(&name).to_string());
                    }
                    Some(Kind::Read | Kind::Permits { .. }) => {
                        let owner = holder.owner.as_deref().unwrap_or_default();
                        pipe.cmd("HGET").arg(Satellite(HELD, &name).to_string()).arg(owner);
                    }
                }
            }
        }
        let Ok(replies) = self.servers.call(Keys::FirstArguments, pipe).await else { return };
        let mut fences = replies.iter().map(|reply| text(reply)?.split(' ').next()?.parse().ok().map(Fence::new));
        // A holder that has the lock before and after the read of the fence has had it all the time.
        let names: Vec<String> = without.iter().map(|row| row.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Ok((now, _)) = self.show_replies(&names).await else { return };
        for (shown, reply) in without.iter_mut().zip(&now) {
            let now = row(&shown.name, reply).ok().flatten();
            let is_held = |holder: &Holder| {
                now.as_ref().is_some_and(|now| now.holders.iter().any(|other| other.owner == holder.owner))
            };
            for holder in shown.holders.iter_mut().filter(|holder| lacks_fence(holder)) {
                if let Some(fence) = fences.next().flatten().filter(|_| is_held(holder)) {
                    *holder = std::mem::take(holder).fenced(fence);
                }
            }
        }
    }
}

/// Whether the holder is a client of bandog, and its fence is not known.
fn lacks_fence(holder: &Holder) -> bool {
    holder.last_fence.is_none() && holder.owner.as_deref().is_some_and(ClientId::made)
}
