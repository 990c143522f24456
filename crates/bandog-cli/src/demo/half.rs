//! One half of the demo: a new shop, new replicas, until all orders are closed.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    books::Counts,
    fault::Fault,
    locks::{Holder, Locks},
    plan::Plan,
    replica::Brief,
    shop::Shop,
    staff::Staff,
    view::{Scene, View},
};
use crate::exit_code::ExitCode;

/// How often the view may change.
const FRAME: Duration = Duration::from_millis(80);

/// One half, with the lock or without.
pub(super) struct Half<'a> {
    plan: &'a Plan,
    place: &'a Path,
    until: Instant,
    locks: Option<&'a Locks>,
}

/// How a half came out.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) lock: bool,
    pub(super) counts: Counts,
    /// Whether orders are left open because the lock's store does not answer.
    pub(super) store_is_away: bool,
    /// What went wrong for a replica last, if anything did.
    pub(super) trouble: Option<String>,
    pub(super) took: Duration,
}

impl<'a> Half<'a> {
    pub(super) fn without_lock(plan: &'a Plan, place: &'a Path, until: Instant) -> Self {
        Self { plan, place, until, locks: None }
    }

    pub(super) fn with_lock(plan: &'a Plan, place: &'a Path, until: Instant, locks: &'a Locks) -> Self {
        Self { plan, place, until, locks: Some(locks) }
    }

    pub(super) async fn play(&self, view: &mut View) -> Result<Outcome, Fault> {
        let path = self.place.join(if self.locks.is_some() { "with-lock.db" } else { "without-lock.db" });
        let shop = Shop::create(&path)?;
        view.begin(self.locks.map(Locks::store), self.plan);
        let mut staff = Staff::hire((1..=self.plan.replicas).map(|number| self.brief(number, &path)))?;
        self.until_ready(&shop, &mut staff).await?;
        let started = Instant::now();
        shop.take_orders(self.plan)?;
        self.until_closed(&shop, &mut staff, view).await?;
        staff.dismiss().await;
        let took = started.elapsed();
        view.end(&self.scene(&shop).await?);
        let counts = shop.count()?;
        let store_is_away = match self.locks {
            Some(locks) if counts.closed < counts.orders => locks.are_away().await,
            Some(_) | None => false,
        };
        let (lock, trouble) = (self.locks.is_some(), shop.last_trouble()?);
        Ok(Outcome { lock, counts, store_is_away, trouble, took })
    }

    fn brief(&self, number: u16, shop: &Path) -> Brief {
        Brief {
            number,
            place: self.place.to_owned(),
            shop: PathBuf::from(shop),
            url: self.locks.map(|locks| locks.url.clone()),
            payment: self.plan.payment(),
        }
    }

    /// Replicas that are late would miss the first sweeps, and so the race.
    async fn until_ready(&self, shop: &Shop, staff: &mut Staff) -> Result<(), Fault> {
        while shop.ready()? < self.plan.replicas {
            let running = staff.running();
            if running < self.plan.replicas.into() || Instant::now() > self.until {
                let (ready, all) = (shop.ready()?, self.plan.replicas);
                let trouble = shop.last_trouble()?.unwrap_or_default();
                let message = format!("of {all} replicas {ready} became ready and {running} run{trouble}");
                return Err(Fault::Story(ExitCode::Internal, message));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Ends too when there is no time left, or nobody to close the rest: the report tells.
    async fn until_closed(&self, shop: &Shop, staff: &mut Staff, view: &mut View) -> Result<(), Fault> {
        loop {
            let scene = self.scene(shop).await?;
            view.draw(&scene);
            if scene.counts.closed == self.plan.orders || staff.running() == 0 || Instant::now() > self.until {
                return Ok(());
            }
            sleep(FRAME).await;
        }
    }

    async fn scene(&self, shop: &Shop) -> Result<Scene, Fault> {
        let holder: Option<Holder> = match self.locks {
            Some(locks) => locks.holder(shop).await?,
            None => None,
        };
        let (counts, sweeping) = (shop.count()?, shop.sweeping()?);
        Ok(Scene { lock: self.locks.is_some(), replicas: self.plan.replicas, counts, sweeping, holder })
    }
}
