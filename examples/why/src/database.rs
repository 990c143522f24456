//! Locks in PostgreSQL: a table with a time, an advisory lock, and a check in the transaction of the write.

use crate::service::Service;
use crate::shop_in_sql::{Session, shop};
use crate::stage::Stage;
use crate::{Result, say};

const TABLE: &str = "create table locks (name text primary key, owner text, expires timestamptz);
                     grant all on locks to locks";

/// The time, as a statement has it and as the time line shows it.
struct Now(&'static str, &'static str);

const CLOCK_OF_A: Now = Now("timestamptz 'today 12:00:00'", "12:00:00");
const CLOCK_OF_B: Now = Now("timestamptz 'today 12:00:10'", "12:00:10");
const CLOCK_OF_SERVER: Now = Now("now()", "now()");

/// Takes the lock for 5 s, if its time has passed.
fn take(session: &Session, stage: &Stage, name: &str, Now(now, shown): Now) -> Result<bool> {
    let statement = format!(
        "insert into locks values ('orders', '{name}', {now} + interval '5 s') on conflict (name) \
         do update set owner = excluded.owner, expires = excluded.expires where locks.expires < {now}"
    );
    let answer = session.sql(&statement)?;
    say!(stage, name, "insert into locks … expires = {shown} + 5 s … where expires < {shown} -> {answer}");
    Ok(answer == "1 row")
}

/// Each client computes the expiry by its own clock. The clocks differ by 10 s.
pub(crate) fn clocks(stage: &Stage) -> Result {
    let (server, database, url) = shop();
    server.sql(&database, TABLE);
    let (a, b) = (Session::open(&url)?, Session::open(&url)?);
    stage.unpaid(7);
    let mut visits = Vec::new();
    if take(&a, stage, "A", CLOCK_OF_A)? {
        visits.push(stage.enter("A"));
    }
    stage.say("B", "its clock is 10 s ahead of that of A");
    if take(&b, stage, "B", CLOCK_OF_B)? {
        visits.push(stage.enter("B"));
    }
    visits.iter().for_each(|visit| visit.give_back());
    Ok(())
}

/// The server's clock decides.
pub(crate) fn server(stage: &Stage) -> Result {
    let (server, database, url) = shop();
    server.sql(&database, TABLE);
    let (a, b) = (Session::open(&url)?, Session::open(&url)?);
    stage.unpaid(7);
    let mut visits = Vec::new();
    if take(&a, stage, "A", CLOCK_OF_SERVER)? {
        visits.push(stage.enter("A"));
    }
    stage.say("B", "its clock is 10 s ahead of that of A");
    if take(&b, stage, "B", CLOCK_OF_SERVER)? {
        visits.push(stage.enter("B"));
    }
    visits.iter().for_each(|visit| visit.give_back());
    drop(visits);
    let delete = "delete from locks where name = 'orders' and owner = 'A'";
    say!(stage, "A", "{delete} -> {}", a.sql(delete)?);
    if take(&b, stage, "B", CLOCK_OF_SERVER)? {
        stage.enter("B").give_back();
    }
    Ok(())
}

/// An advisory lock in one connection of a pool, and its unlock in another one.
pub(crate) fn pooled(stage: &Stage) -> Result {
    let (_server, _, url) = shop();
    let pool_of_a = [Session::open(&url)?, Session::open(&url)?];
    let b = Session::open(&url)?;
    stage.unpaid(7);
    let lock = "select pg_try_advisory_lock(7)";
    say!(stage, "A", "{lock} -> {} (connection 1 of its pool)", pool_of_a[0].sql(lock)?);
    stage.enter("A").give_back();
    let unlock = "select pg_advisory_unlock(7)";
    say!(stage, "A", "{unlock} -> {} (connection 2 of its pool)", pool_of_a[1].sql(unlock)?);
    let answer = b.sql(lock)?;
    if answer == "f" {
        stage.shut_out("B", format!("{lock} -> {answer}, although no replica is in the section"));
    }
    Ok(())
}

/// The transaction of the write checks the lock.
pub(crate) fn commit(stage: &Stage) -> Result {
    let (server, database, url) = shop();
    let [mut a, mut b] = Service::several(stage, &url, ["A", "B"]);
    let mut refused = 0;
    a.lock()?;
    a.fence_sql()?;
    let late = stage.enter_shop("A", &server.sql(&database, "select state from orders where id = 7"));
    a.pause();
    b.lock()?;
    b.fence_sql()?;
    let next = stage.enter_shop("B", &server.sql(&database, "select state from orders where id = 7"));
    refused += u32::from(!b.commit()?);
    drop(next);
    b.release()?;
    a.wake();
    refused += u32::from(!a.commit()?);
    drop(late);
    a.release()?;
    let returned = server.sql(&database, "select returned from stock where id = 7").parse()?;
    stage.counted(7, returned, refused);
    Ok(())
}
