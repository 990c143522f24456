//! The verbs of semaphores.

use std::{fs::OpenOptions, io::Write, net::SocketAddr, thread, time::Duration};

use bandog::blocking::Semaphore;
use bandog_testkit::RawRedis;

use crate::worker::{Answer, Hold, Refusal, Worker, millis, number, word};

/// Time for which permits are held in a crowd, so that the holders overlap.
const HELD: Duration = Duration::from_micros(200);
/// The same on ZooKeeper, where a claim takes longer.
const HELD_IN_FILE: Duration = Duration::from_millis(2);

impl Worker {
    /// Permits are answered as one id for each permit. A lease of -1 ms means that the permits are renewed.
    pub(crate) fn leased(&mut self, verb: &str, name: &str, args: &[&str]) -> Answer {
        match verb {
            "set" => {
                let limit = number(args, 0)?;
                self.client.semaphore(name, limit).set_limit(limit)?;
                Ok("set".into())
            }
            "acquire" => {
                let (semaphore, take) = self.semaphore(name, args)?;
                let guard = semaphore.acquire()?;
                Ok(self.keep_permits(take, Hold::Plain(guard)))
            }
            "try" => self.try_for(name, args, Duration::ZERO),
            "try-for" => self.try_for(name, args, millis(args, 3)?),
            "release" | "release-one" => self.release(&args.join(" ")),
            "crowd" => self.crowd(name, args),
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    /// Permits of a plain semaphore, which the URL must ask for. The first argument is a number of permits, and the last
    /// one is the limit.
    pub(crate) fn plain(&mut self, verb: &str, name: &str, args: &[&str]) -> Answer {
        let [args @ .., limit] = args else { return Err("a command has too few arguments".into()) };
        let limit: u32 = limit.parse()?;
        let take = || number::<u32>(args, 0);
        let semaphore = self.client.semaphore(name, limit);
        let wait = match verb {
            "set-if-absent" => {
                if self.client.show(name)?.kind.is_some() {
                    return Ok("set already".into());
                }
                self.client.semaphore(name, take()?).set_limit(take()?)?;
                return Ok("set".into());
            }
            "add" => {
                let change = number::<i32>(args, 0)?;
                semaphore.set_limit(limit.checked_add_signed(change).ok_or("a limit below 0")?)?;
                return Ok("set".into());
            }
            "release" => return self.release(&plain_id(name, take()?)),
            "crowd" => return self.crowd(name, &[args, &[&limit.to_string()]].concat()),
            "acquire" => None,
            "try" => Some(Duration::ZERO),
            "try-for" => Some(millis(args, 1)?),
            _ => return Err(format!("unknown verb {verb}").into()),
        };
        let semaphore = semaphore.permits(take()?);
        let guard = match wait {
            None => semaphore.acquire()?,
            Some(wait) => {
                let Some(guard) = semaphore.try_acquire_for(wait)? else { return Ok("busy".into()) };
                guard
            }
        };
        Ok(self.keep(plain_id(name, take()?), Hold::Plain(guard)))
    }

    /// Permits of a semaphore in Curator's layout. The arguments are a number of permits and the limit, and then those of the
    /// verb.
    pub(crate) fn permits(&mut self, verb: &str, name: &str, args: &[&str]) -> Answer {
        let id = format!("permits {name}");
        if verb == "unlock" {
            return self.release(&id);
        }
        let take: u32 = number(args, 0)?;
        let semaphore = self.client.semaphore(name, number(args, 1)?).permits(take);
        let guard = match verb {
            "lock" => Some(semaphore.acquire()?),
            "try" => semaphore.try_acquire()?,
            "try-for" => semaphore.try_acquire_for(millis(args, 2)?)?,
            "crowd" => return crowd_in_file(&semaphore, take, word(args, 2)?, number(args, 3)?),
            _ => return Err(format!("unknown verb {verb}").into()),
        };
        Ok(guard.map_or_else(|| "busy".into(), |guard| self.keep(id, Hold::Plain(guard))))
    }

    fn try_for(&mut self, name: &str, args: &[&str], wait: Duration) -> Answer {
        let (semaphore, take) = self.semaphore(name, args)?;
        let Some(guard) = semaphore.try_acquire_for(wait)? else { return Ok("busy".into()) };
        Ok(self.keep_permits(take, Hold::Plain(guard)))
    }

    /// The semaphore for the arguments number of permits, lease and limit; and the number of permits.
    fn semaphore(&self, name: &str, args: &[&str]) -> Result<(Semaphore, u32), Refusal> {
        let (take, lease, limit) = (number(args, 0)?, number::<i64>(args, 1)?, number(args, 2)?);
        let semaphore = self.client.semaphore(name, limit).permits(take);
        let lease = u64::try_from(lease).ok().map(Duration::from_millis);
        Ok((if let Some(lease) = lease { semaphore.lease(lease) } else { semaphore }, take))
    }

    fn keep_permits(&mut self, take: u32, hold: Hold) -> String {
        self.taken += 1;
        let ids: Vec<String> = (0..take).map(|index| format!("{}-{index}", self.taken)).collect();
        let ids = ids.join(" ");
        self.keep(ids.clone(), hold);
        ids
    }

    /// Takes permits repeatedly. Answers the highest number of permits that were in use at once, according to a counter
    /// on the server. The arguments are the number of permits, the key of the counter, the number of turns, the limit.
    fn crowd(&self, name: &str, args: &[&str]) -> Answer {
        let (take, in_use, times, limit) = (word(args, 0)?, word(args, 1)?, number::<u32>(args, 2)?, number(args, 3)?);
        let semaphore = self.client.semaphore(name, limit).permits(take.parse()?);
        let address = self.url.trim_start_matches("redis://").split('?').next().unwrap_or_default();
        let address: SocketAddr = address.parse()?;
        let mut server = RawRedis::connect(address)?;
        let mut peak = 0;
        for _ in 0..times {
            let guard = semaphore.acquire()?;
            peak = peak.max(server.cmd(&["INCRBY", in_use, take])?.int());
            thread::sleep(HELD);
            server.cmd(&["DECRBY", in_use, take])?;
            guard.release()?;
        }
        Ok(peak.to_string())
    }
}

/// Takes permits repeatedly. While they are held, the file has one more plus than minus for each permit.
fn crowd_in_file(semaphore: &Semaphore, take: u32, path: &str, times: u32) -> Answer {
    let mut file = OpenOptions::new().append(true).open(path)?;
    for _ in 0..times {
        let guard = semaphore.acquire()?;
        file.write_all("+".repeat(take as usize).as_bytes())?;
        thread::sleep(HELD_IN_FILE);
        file.write_all("-".repeat(take as usize).as_bytes())?;
        guard.release()?;
    }
    Ok(times.to_string())
}

/// The id of permits of a plain semaphore that were taken together.
fn plain_id(name: &str, take: u32) -> String {
    format!("semaphore {name} {take}")
}
