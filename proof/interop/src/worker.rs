//! One thread of the process: the locks that it holds, and the verbs of each kind.

use std::{error::Error, time::Duration};

use bandog::{
    Fence, SharedHold,
    blocking::{Client, Guard, Leadership, Lost, WriteGuard},
};
use bandog_interop::counter::Counter;

/// The reason why a command failed.
pub(crate) type Refusal = Box<dyn Error + Send + Sync>;

/// The answer of a command.
pub(crate) type Answer = Result<String, Refusal>;

pub(crate) struct Worker {
    pub(crate) client: Client,
    pub(crate) url: String,
    held: Vec<Held>,
    /// Number of times that this thread has taken permits.
    pub(crate) taken: u64,
}

/// A lock or permits that this thread holds.
struct Held {
    id: String,
    guard: Hold,
}

pub(crate) enum Hold {
    Plain(Guard<SharedHold>),
    Writer(WriteGuard),
    Leader(Leadership),
}

impl Worker {
    pub(crate) fn new(client: Client, url: String) -> Self {
        Self { client, url, held: Vec::new(), taken: 0 }
    }

    /// Executes a command: kind, verb, name, and the arguments of the verb. The answers are those of the Java side.
    pub(crate) fn obey(&mut self, words: &[String]) -> Answer {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [kind, verb, name, args @ ..] = &words[..] else { return Err("a command has too few words".into()) };
        match *kind {
            "none" => self.count(None, args),
            "latch" => self.latch(verb, name, args),
            "leased" => self.leased(verb, name, args),
            "semaphore" => self.plain(verb, name, args),
            "permits" => self.permits(verb, name, args),
            kind => self.lock((kind, name), verb, args),
        }
    }

    fn lock(&mut self, lock: (&str, &str), verb: &str, args: &[&str]) -> Answer {
        let id = format!("{} {}", lock.0, lock.1);
        let fence = |hold: &Hold| hold.fence().to_string();
        match verb {
            "lock" if lock.0 == "fenced" => {
                let hold = self.wait(lock, None)?;
                let answer = fence(&hold);
                self.keep(id, hold);
                Ok(answer)
            }
            "lock" => {
                let hold = self.wait(lock, None)?;
                Ok(self.keep(id, hold))
            }
            "lease" => {
                let hold = self.wait(lock, Some(millis(args, 0)?))?;
                Ok(self.keep(id, hold))
            }
            "try" => Ok(self.keep_if_held(id, self.take(lock, None, Some(Duration::ZERO))?)),
            "try-for" => Ok(self.keep_if_held(id, self.take(lock, None, Some(millis(args, 0)?))?)),
            "unlock" => self.release(&id),
            "force" => Ok(if self.client.evict(lock.1)?.is_some() { "freed" } else { "free already" }.into()),
            "downgrade" => {
                let Hold::Writer(guard) = self.give_up(&id)? else {
                    return Err("only a writer can become a reader".into());
                };
                Ok(self.keep(format!("read {}", lock.1), Hold::Plain(guard.downgrade()?)))
            }
            "lost" => {
                let held = self.held.iter().find(|held| held.id == id).ok_or("this thread does not hold the lock")?;
                Ok(if held.guard.lost().wait()? { "lost" } else { "released" }.into())
            }
            "count" => self.count(Some(lock), args),
            "check" => self.repeat(Some(lock), args, |counter, _| counter.check()),
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    fn latch(&self, verb: &str, name: &str, args: &[&str]) -> Answer {
        let latch = self.client.latch(name);
        let either = |is_first: bool, first: &str, second: &str| Ok(if is_first { first } else { second }.to_owned());
        match verb {
            "set" => either(latch.set(number(args, 0)?)?, "set", "set already"),
            "down" => latch.count_down().map(|_| "counted".to_owned()).map_err(Into::into),
            "await" => latch.wait().map(|()| "open".to_owned()).map_err(Into::into),
            "await-for" => either(latch.wait_for(millis(args, 0)?)?, "open", "closed"),
            "count" => Ok(latch.count()?.to_string()),
            "delete" => either(latch.delete()?, "deleted", "absent"),
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    /// Takes a lock: a kind and a name. Without a `wait`, the call waits until it gets the lock.
    fn take(
        &self,
        (kind, name): (&str, &str),
        lease: Option<Duration>,
        wait: Option<Duration>,
    ) -> Result<Option<Hold>, Refusal> {
        let (mut mutex, mut halves) = (self.client.mutex(name), self.client.rwlock(name));
        if let Some(lease) = lease {
            (mutex, halves) = (mutex.lease(lease), halves.lease(lease));
        }
        let taken = match (kind, wait) {
            ("lock" | "fenced", None) => Some(Hold::Plain(mutex.lock()?.into())),
            ("lock" | "fenced", Some(wait)) => mutex.try_lock_for(wait)?.map(|guard| Hold::Plain(guard.into())),
            ("fair", None) => Some(Hold::Plain(mutex.fair().lock()?.into())),
            ("fair", Some(wait)) => mutex.fair().try_lock_for(wait)?.map(|guard| Hold::Plain(guard.into())),
            ("read", None) => Some(Hold::Plain(halves.read()?)),
            ("read", Some(wait)) => halves.try_read_for(wait)?.map(Hold::Plain),
            ("write", None) => Some(Hold::Writer(halves.write()?)),
            ("write", Some(wait)) => halves.try_write_for(wait)?.map(Hold::Writer),
            ("leader", None) => Some(Hold::Leader(self.client.election(name).campaign()?)),
            ("leader", Some(wait)) => self.client.election(name).campaign_for(wait)?.map(Hold::Leader),
            _ => return Err(format!("unknown kind {kind}").into()),
        };
        Ok(taken)
    }

    fn wait(&self, lock: (&str, &str), lease: Option<Duration>) -> Result<Hold, Refusal> {
        self.take(lock, lease, None)?.ok_or_else(|| "a call without a time limit returned without the lock".into())
    }

    /// Adds one to the counter repeatedly, under this lock.
    fn count(&self, lock: Option<(&str, &str)>, args: &[&str]) -> Answer {
        self.repeat(lock, args, Counter::add)
    }

    fn repeat(
        &self,
        lock: Option<(&str, &str)>,
        args: &[&str],
        mut turn: impl FnMut(&Counter, u64) -> std::io::Result<()>,
    ) -> Answer {
        let (counter, times) = (Counter::open(word(args, 0)?)?, number(args, 1)?);
        for _ in 0..times {
            let hold = lock.map(|lock| self.wait(lock, None)).transpose()?;
            let fenced = hold.as_ref().filter(|_| lock.is_some_and(|(kind, _)| kind == "fenced"));
            turn(&counter, fenced.map_or(0, |hold| hold.fence().get()))?;
            if let Some(hold) = hold {
                hold.release()?;
            }
        }
        Ok(times.to_string())
    }

    pub(crate) fn keep(&mut self, id: String, guard: Hold) -> String {
        self.held.push(Held { id, guard });
        "held".into()
    }

    fn keep_if_held(&mut self, id: String, hold: Option<Hold>) -> String {
        hold.map_or_else(|| "busy".into(), |hold| self.keep(id, hold))
    }

    /// Releases what this thread took last with this id.
    pub(crate) fn release(&mut self, id: &str) -> Answer {
        self.give_up(id)?.release()?;
        Ok("freed".into())
    }

    fn give_up(&mut self, id: &str) -> Result<Hold, Refusal> {
        let last = self.held.iter().rposition(|held| held.id == id).ok_or("this thread does not hold the lock")?;
        Ok(self.held.remove(last).guard)
    }
}

impl Hold {
    fn fence(&self) -> Fence {
        match self {
            Self::Plain(guard) => guard.fence(),
            Self::Writer(guard) => guard.fence(),
            Self::Leader(leadership) => leadership.fence(),
        }
    }

    fn lost(&self) -> Lost {
        match self {
            Self::Plain(guard) => guard.lost(),
            Self::Writer(guard) => guard.lost(),
            Self::Leader(leadership) => leadership.lost(),
        }
    }

    pub(crate) fn release(self) -> bandog::Result<()> {
        match self {
            Self::Plain(guard) => guard.release(),
            Self::Writer(guard) => guard.release(),
            Self::Leader(leadership) => leadership.resign(),
        }
    }
}

/// The argument with this index.
pub(crate) fn word<'a>(args: &[&'a str], index: usize) -> Result<&'a str, Refusal> {
    args.get(index).copied().ok_or_else(|| "a command has too few arguments".into())
}

pub(crate) fn number<T>(args: &[&str], index: usize) -> Result<T, Refusal>
where
    T: std::str::FromStr<Err = std::num::ParseIntError>,
{
    Ok(word(args, index)?.parse()?)
}

pub(crate) fn millis(args: &[&str], index: usize) -> Result<Duration, Refusal> {
    Ok(Duration::from_millis(number(args, index)?))
}
