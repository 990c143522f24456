//! The version of a server program.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// The name and the version of a server program, for example Redis 7.0.15 or Valkey 9.1.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    name: String,
    text: String,
    /// The version of Redis whose features the server has: the major and the minor number.
    compatible_with: (u32, u32),
}

impl ServerVersion {
    /// Queries the version of a server program.
    ///
    /// # Errors
    /// If the program cannot be run, or prints no version.
    pub fn of(program: &Path) -> io::Result<Self> {
        let out = Command::new(program).arg("--version").output()?;
        let printed = String::from_utf8_lossy(&out.stdout);
        Self::read(&printed).ok_or_else(|| io::Error::other(format!("--version printed no version: {printed:?}")))
    }

    /// Returns true if the server has the features of this version of Redis. Valkey was forked from Redis 7.2, so every
    /// version of Valkey counts as Redis 7.2.
    #[must_use]
    pub fn is_since(&self, major: u32, minor: u32) -> bool {
        self.compatible_with >= (major, minor)
    }

    /// Parses the output of a server program, such as `Redis server v=7.0.15 sha=…`.
    fn read(printed: &str) -> Option<Self> {
        let mut words = printed.split_whitespace();
        let name = words.next()?.to_owned();
        let text = words.find_map(|word| word.strip_prefix("v="))?.to_owned();
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let version = (numbers.next()??, numbers.next()??);
        let compatible_with = if name == "Redis" { version } else { (7, 2) };
        Some(Self { name, text, compatible_with })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reports_its_version() {
        let redis = ServerVersion::read("Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64").unwrap();
        assert_eq!(redis.to_string(), "Redis 6.2.14");
        assert!(redis.is_since(6, 2) && !redis.is_since(7, 0));
        let valkey = ServerVersion::read("Valkey server v=9.1.2 sha=00000000:1").unwrap();
        assert_eq!(valkey.to_string(), "Valkey 9.1.2");
        assert!(valkey.is_since(7, 0) && !valkey.is_since(8, 0));
        for nonsense in ["", "GNU bash", "Redis server v=seven"] {
            assert_eq!(ServerVersion::read(nonsense), None, "{nonsense}");
        }
    }
}
