//! Backends that wrap another backend: they count, delay, lose or hold its calls, grant less, or break a rule.
//!
//! All clones of a wrapper share one state. So a test can keep one clone and pass another clone to a client.

mod capped;
mod counting;
mod delayed;
mod flaw;
mod flawed;
mod forgetful;
mod latches;
mod lossy;
mod records;
mod stopped;
mod without_subscriptions;

pub use capped::Capped;
pub use counting::Counting;
pub use delayed::Delayed;
pub use flaw::Flaw;
pub use flawed::Flawed;
pub use forgetful::Forgetful;
pub use lossy::{Fate, Lossy};
pub use stopped::{Stopped, Which};
pub use without_subscriptions::WithoutSubscriptions;

/// Implements `Inspect` for a wrapper. The wrapper passes these calls to its backend unchanged.
macro_rules! impl_inspect {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<B: bandog_core::Backend> bandog_core::Inspect for $wrapper<B> {
            async fn list(&self, pattern: &bandog_core::Pattern) -> bandog_core::Result<Vec<bandog_core::Row>> {
                self.inner().list(pattern).await
            }

            async fn show(&self, key: &bandog_core::Key) -> bandog_core::Result<bandog_core::Row> {
                self.inner().show(key).await
            }

            async fn show_all(&self, keys: &[bandog_core::Key]) -> bandog_core::Result<Vec<bandog_core::Row>> {
                self.inner().show_all(keys).await
            }

            async fn members_of(
                &self,
                clients: &[bandog_core::ClientId],
            ) -> bandog_core::Result<Vec<bandog_core::Member>> {
                self.inner().members_of(clients).await
            }

            async fn members(&self) -> bandog_core::Result<Vec<bandog_core::Member>> {
                self.inner().members().await
            }

            async fn evict(&self, key: &bandog_core::Key) -> bandog_core::Result<Option<bandog_core::Row>> {
                self.inner().evict(key).await
            }

            async fn forget(&self, key: &bandog_core::Key) -> bandog_core::Result<bool> {
                self.inner().forget(key).await
            }

            async fn names_page(
                &self,
                pattern: &bandog_core::Pattern,
                unused_for: std::time::Duration,
                after: Option<&str>,
            ) -> bandog_core::Result<bandog_core::NamesPage> {
                self.inner().names_page(pattern, unused_for, after).await
            }

            async fn usage(
                &self,
                keys: &[bandog_core::Key],
                unused_for: std::time::Duration,
                then: bandog_core::IfUnused,
            ) -> bandog_core::Result<Vec<bandog_core::Usage>> {
                self.inner().usage(keys, unused_for, then).await
            }

            async fn check(&self) -> bandog_core::Result<Vec<bandog_core::Finding>> {
                self.inner().check().await
            }

            async fn check_for(&self, prefix: &str) -> bandog_core::Result<Vec<bandog_core::Finding>> {
                self.inner().check_for(prefix).await
            }
        }
    };
}

use impl_inspect;
