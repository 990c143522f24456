//! The conformance suite with SQLite. Each law has its own database file.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod queues;

use std::{fs, path::PathBuf, sync::Mutex, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_core::Clock;
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_testkit::eventually;
use rusqlite::Connection;
use tempfile::TempDir;

conformance!(OnSqlite);

const NO_WIRE: Unkept = Unkept::Cannot("there is no wire to a file");

struct OnSqlite {
    dir: TempDir,
    /// A write transaction that is kept open. It blocks all other writes.
    writer: Mutex<Option<Connection>>,
}

impl OnSqlite {
    fn path(&self) -> PathBuf {
        self.dir.path().join("locks.db")
    }

    fn open_files(&self) -> usize {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.filter(|target| target.starts_with(self.dir.path())).count()
    }

    /// A connection to the database that does not use the backend. It waits for writers.
    fn raw_connection(&self) -> Connection {
        let raw = Connection::open(self.path()).unwrap();
        raw.busy_timeout(Duration::from_secs(10)).unwrap();
        raw
    }
}

#[async_trait]
impl World for OnSqlite {
    const NAME: &'static str = "sqlite";
    type Backend = Sqlite;

    async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bandog-laws-").tempdir().unwrap();
        Self { dir, writer: Mutex::default() }
    }

    fn backend(&self) -> Sqlite {
        at(self.path())
    }

    async fn left(&self) -> Vec<String> {
        if !self.path().exists() {
            return Vec::new();
        }
        let now = i64::try_from(Clock::system().now().as_nanos()).unwrap();
        let raw = self.raw_connection();
        let Ok(mut held) = raw.prepare("select name from lease where owner is not null and expires > ?1") else {
            return Vec::new(); // A file without tables has no holds.
        };
        held.query_map([now], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    async fn forget(&self, key: &str) -> Can {
        let changed = self.raw_connection().execute("update lease set owner = null where name = ?1", [key]).unwrap();
        assert_eq!(changed, 1);
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        // A first lock creates the tables.
        let client = self.client();
        client.mutex("first").lock().await?.release().await?;
        let boot: String = self.raw_connection().query_row("select boot from lease", [], |row| row.get(0)).unwrap();
        let until = i64::try_from((Clock::system().now() + Duration::from_secs(3600)).as_nanos()).unwrap();
        let ttl = 3_600_000_000_000_i64;
        let insert =
            "insert into lease (name, owner, fence, expires, ttl, stamp, boot) values (?1, ?2, 7, ?3, ?4, 1, ?5)";
        self.raw_connection().execute(insert, ("here", "somebody", until, ttl, &boot)).unwrap();
        self.raw_connection().execute(insert, ("elsewhere", "somebody", 1, ttl, "another boot")).unwrap();
        Ok(vec!["here".into(), "elsewhere".into()])
    }

    async fn raw(&self, key: &str) -> Can<String> {
        // All columns but the waiters' mark.
        let columns = "printf('%s %s %d %d %d %d %s', name, owner, fence, expires, ttl, stamp, boot)";
        let query = format!("select {columns} from lease where name = ?1");
        Ok(self.raw_connection().query_row(&query, [key], |row| row.get(0)).unwrap())
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        let insert = "insert into record (name, version, value) values ('none', 0, ''), ('less', -1, ''), \
                      ('garbled', 1, cast(x'ff' as text))";
        self.raw_connection().execute(insert, []).unwrap();
        Ok(["none", "less", "garbled"].map(String::from).to_vec())
    }

    /// There is no server to restart.
    async fn restart(&self) -> Can {
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        for ending in ["", "-wal", "-shm", "-bell"] {
            let path = format!("{}{ending}", self.path().display());
            assert!(fs::remove_file(&path).is_ok() || !ending.is_empty(), "{path}");
        }
        Ok(())
    }

    async fn cut(&self) -> Can {
        Err(NO_WIRE)
    }

    async fn lose_answers(&self, _: bool) -> Can {
        Err(NO_WIRE)
    }

    async fn stand_still(&self, on: bool) -> Can {
        let writer = on.then(|| self.raw_connection());
        writer.iter().for_each(|writer| writer.execute_batch("begin exclusive").unwrap());
        *self.writer.lock().unwrap() = writer;
        Ok(())
    }

    /// The number of files of this store that this process has open.
    async fn connections(&self) -> Can<usize> {
        Ok(self.open_files())
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot("a test cannot set the machine's clock; the unit tests (boots) use a clock that jumps"))
    }

    fn address(&self) -> Can<String> {
        Ok(self.path().to_str().unwrap().into())
    }

    fn backend_at(address: &str) -> Can<Sqlite> {
        Ok(at(address.into()))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let query = "select owner, fence, expires, ttl, typeof(owner), typeof(fence) from lease where name = ?1";
        let row = |row: &rusqlite::Row<'_>| {
            let kinds: (String, String) = (row.get(4)?, row.get(5)?);
            assert_eq!(kinds, ("text".into(), "integer".into()));
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        };
        let (has_owner, has_fence, expires, has_ttl): (String, i64, i64, i64) =
            self.raw_connection().query_row(query, [key], row).unwrap();
        assert_eq!((has_owner.as_str(), has_fence.cast_unsigned()), (owner, fence));
        assert_eq!(u128::from(has_ttl.cast_unsigned()), ttl.as_nanos());
        let now = Clock::system().now();
        let end = bandog_core::Moment::from_nanos(expires.cast_unsigned());
        assert!(end > now && end.since(now) <= ttl);
        Ok(())
    }
}

/// A client might still use its files for a short time after its last handle is dropped. Then it could create the
/// deleted directory again. So this waits until no file is open before it deletes the directory.
impl Drop for OnSqlite {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            eventually(Duration::from_secs(20), || self.open_files() == 0);
        }
    }
}

fn at(path: PathBuf) -> Sqlite {
    Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(2))).unwrap()
}
