//! A store in a child process. The test sends commands as lines of text.

use std::{collections::HashMap, fs, io::stdin, path::Path, time::Duration};

use bandog_core::{Claim, Leases, Records, Renewal, Result, Swap, Swapped, Verdict, Version};
use bandog_sqlite::{Sqlite, SqliteOptions};
use bandog_testkit::Process;

use crate::{
    child::{SOON, start},
    records::key,
    support::{TTL, claim, eventually, release, try_take},
};

/// A store in a child process.
pub(crate) struct RemoteStore(Process);

impl RemoteStore {
    pub(crate) fn at(path: &Path) -> Self {
        let mut store = Self(start("serve", path, TTL));
        assert_eq!(store.request("ping"), "yes");
        store
    }

    /// Sends a command and returns the answer.
    pub(crate) fn request(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.write_line(command);
    }

    pub(crate) fn answer(&mut self) -> String {
        self.0.stdout_line("answer ", SOON).split_once("answer ").unwrap().1.to_owned()
    }

    /// Waits until the child's writer thread has slept repeatedly, as it does while another process has the write lock.
    pub(crate) fn wait_until_blocked(&self) {
        let switches = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.0.pid())).unwrap();
            let writer = tasks
                .map(|task| task.unwrap().path())
                .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "bandog-sqlite"));
            let status = fs::read_to_string(writer.unwrap().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        let before = switches();
        bandog_testkit::eventually(SOON, || switches() > before + 20);
    }

    /// Claims a lock. Returns the fence if the claim was granted.
    pub(crate) fn take(&mut self, name: &str) -> Option<u64> {
        let answer = self.request(&format!("take {name}"));
        match answer.split_once(' ') {
            Some(("granted", fence)) => Some(fence.parse().unwrap()),
            _ if answer == "busy" => None,
            _ => panic!("{answer}"),
        }
    }

    /// The number of times that the child's store has opened the database.
    pub(crate) fn epoch(&mut self) -> u64 {
        self.request("epoch").parse().unwrap()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.0
    }

    /// Makes the child close the database and exit.
    pub(crate) fn end(mut self) {
        self.0.close_stdin();
        assert!(self.0.wait(SOON).success());
    }
}

/// The role `serve` of a child: it executes the commands.
pub(crate) async fn serve(path: &Path) {
    let store = Sqlite::new(SqliteOptions::at(path).timeout(Duration::from_secs(10))).unwrap();
    let mut held = HashMap::new();
    loop {
        let mut line = String::new();
        if stdin().read_line(&mut line).unwrap() == 0 {
            break;
        }
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let answer = execute(&store, &mut held, &words).await;
        println!("answer {}", answer.unwrap_or_else(|error| format!("error {error}")));
    }
    drop(store);
    eventually("the database is closed", async || !is_open(path)).await;
}

/// Whether this process has the database open.
pub(crate) fn is_open(path: &Path) -> bool {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.into_iter().any(|file| file == path)
}

async fn execute(store: &Sqlite, held: &mut HashMap<String, Claim>, words: &[&str]) -> Result<String> {
    Ok(match *words {
        ["ping"] => store.ping().await.map(|()| "yes".into())?,
        ["epoch"] => store.profile().epoch.borrow().to_string(),
        ["take", name] => {
            let ours = claim(name, TTL);
            match try_take(store, &ours).await? {
                Verdict::Granted { fences, .. } => {
                    held.insert(name.into(), ours);
                    format!("granted {}", fences.last())
                }
                Verdict::Busy { .. } => "busy".into(),
            }
        }
        ["renew", name] => match store.renew(&[held[name].clone()]).await.remove(0)? {
            Renewal::Extended { .. } => "extended".into(),
            Renewal::Waiting { is_next } => if is_next { "next" } else { "waiting" }.into(),
            Renewal::Gone => "gone".into(),
        },
        ["release", name] => format!("{:?}", release(store, &held[name]).await),
        ["put", name, from, to] => {
            let from = from.parse().ok().and_then(Version::new);
            match store.swap(&[Swap::new(key(name), from, to)]).await?.each.remove(0)? {
                Swapped::Done(version) => version.map_or(0, Version::get).to_string(),
                Swapped::Differs(_) => "differs".into(),
                other => format!("{other:?}"),
            }
        }
        _ => panic!("unknown command {words:?}"),
    })
}
